#!/usr/bin/env bash
# Create the virtual environment DIR unless it is there: scripts/create-venv.sh DIR
# Takes $PYTHON if set, else the first Python >= 3.11 found.
set -euo pipefail
directory=$1

if [ -x "$directory/bin/python" ] && "$directory/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# 3.11 comes first because constraints.txt is pinned with it.
python=
for candidate in ${PYTHON:-python3.11 python3 python3.12 python3.13}; do
    if is_recent "$candidate"; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "error: no Python 3.11 or newer found; install one, or name it: make PYTHON=path/to/python3.11" >&2
    exit 1
fi

# Debian ships Python without what `venv` needs.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing python3-venv, which $python lacks"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    else
        echo "error: $python cannot create virtual environments; on Debian or Ubuntu: sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi

echo "creating $directory with $("$python" --version)"
rm -rf "$directory"
"$python" -m venv "$directory"
