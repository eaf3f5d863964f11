#!/usr/bin/env bash
# Succeed when a C compiler is here. Installs Debian's when we may, else says what to do.
# Tests load a small library into processes that write files, to know what these have flushed.
set -euo pipefail

is_here() {
    command -v cc >/dev/null
}

is_here && exit 0

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing gcc, with which the tests of power failures make their library"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev >/dev/null
    is_here && exit 0
fi

echo "error: the tests of power failures need a C compiler; found none." >&2
echo "       On Debian or Ubuntu: sudo apt-get install gcc libc6-dev" >&2
exit 1
