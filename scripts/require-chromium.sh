#!/usr/bin/env bash
# Succeed when Chromium is here. Installs Debian's when we may, else says what to do.
# The tests of the console look at its page with it.
set -euo pipefail

is_here() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null
}

is_here && exit 0

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing chromium, with which the page of the console is tested"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
    is_here && exit 0
fi

echo "error: the tests of the console need the browser Chromium; found none." >&2
echo "       On Debian or Ubuntu: sudo apt-get install chromium" >&2
exit 1
