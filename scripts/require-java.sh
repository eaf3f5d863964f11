#!/usr/bin/env bash
# Succeed when Java >= 17 is here. Installs Debian's when we may, else says what to do.
set -euo pipefail

# The java Spark will start: JAVA_HOME first, then PATH. Prints its major version, nothing if there is none.
java_major() {
    local java=java
    [ -n "${JAVA_HOME:-}" ] && java=$JAVA_HOME/bin/java
    "$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

is_recent() {
    [ "$(java_major || true)" -ge 17 ] 2>/dev/null
}

is_recent && exit 0

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && [ -z "${JAVA_HOME:-}" ]; then
    echo "installing openjdk-17-jre-headless, which Spark needs"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openjdk-17-jre-headless >/dev/null
    is_recent && exit 0
fi

found=$(java_major || true)
echo "error: Spark needs Java 17 or newer; found ${found:+Java }${found:-none}." >&2
echo "       On Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless" >&2
echo "       Elsewhere: install a JDK 17 and set JAVA_HOME to it." >&2
exit 1
