#!/usr/bin/env bash
# Succeed when the MQTT broker mosquitto is here. Installs Debian's when we may, else says what to do.
# Tests start brokers of their own; the service that the package brings is not left running.
set -euo pipefail

# Debian puts it where only root looks.
PATH=$PATH:/usr/sbin:/usr/local/sbin

is_here() {
    command -v mosquitto >/dev/null
}

is_here && exit 0

if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing mosquitto, with which the MQTT source is tested"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq mosquitto >/dev/null
    if [ -d /run/systemd/system ]; then
        systemctl disable --quiet --now mosquitto
    fi
    is_here && exit 0
fi

echo "error: the tests of the MQTT source need the broker mosquitto; found none." >&2
echo "       On Debian or Ubuntu: sudo apt-get install mosquitto" >&2
exit 1
