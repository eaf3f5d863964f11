#!/usr/bin/env bash
# Follow README.md on a machine that has nothing, and time each step, for docs/first-hour.md.
#   scripts/first-hour.sh REPOSITORY FOLDER
# clones REPOSITORY into FOLDER/holdfast and writes FOLDER/first-hour.log. Run it as root in an empty Debian:
#   debootstrap --variant=minbase --include=ca-certificates,git,make,python3 bookworm empty
#   mount -t proc proc empty/proc && mount --rbind /dev empty/dev
#   chroot empty /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin /first-hour.sh ...
set -uo pipefail
repository=$1 folder=$2
log=$folder/first-hour.log
mkdir -p "$folder"
export TERM=dumb COLUMNS=120

step() { # NAME COMMAND...: its last lines, exit code and seconds go into the log
    local name=$1 start=$SECONDS code
    shift
    "$@" >"$folder/step.out" 2>&1
    code=$?
    {
        echo "=== $name: exit code $code, $((SECONDS - start)) s"
        tail -n 20 "$folder/step.out"
    } >>"$log"
}

block() { # LANGUAGE: the first such block of the README
    python3 -c 'import re, sys; print(re.search("```" + sys.argv[1] + r"\n(.*?)```", open("README.md").read(), re.S)[1], end="")' "$1"
}

first_rows() { # N: once the topology answers
    until timeout 120 .venv/bin/holdfast tail minutes -f fleet.toml --rows "$1"; do
        kill -0 "$running" || return 1
        sleep 1
    done
}

page() { # of the console, once it is there
    for _ in $(seq 60); do
        python3 -c 'import urllib.request as u; print(len(u.urlopen("http://127.0.0.1:8800/").read()), "bytes")' && return
        sleep 0.5
    done 2>/dev/null
    return 1
}

replica() { # NAME: its process, a child of `holdfast run`
    python3 - "$running" "$1" <<'PYTHON'
import sys
from pathlib import Path

for process in Path("/proc").glob("[0-9]*"):
    try:
        words = (process / "cmdline").read_text().split("\0")
        parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        continue
    if parent == sys.argv[1] and sys.argv[2] in words:
        print(process.name)
PYTHON
}

kill_replica() {
    kill -9 "$(replica minutes/1)" && first_rows 6
}

echo "$(date -u +%F) $(. /etc/os-release && echo "$PRETTY_NAME"), $(nproc) cores, $(python3 --version), $(dpkg -l | grep -c ^ii) packages" >"$log"
cd "$folder" || exit 1
step "git clone" git clone --quiet "$repository" holdfast
cd holdfast || exit 1
step "make demo" make demo
step "holdfast doctor" .venv/bin/holdfast doctor
block python >window.py
step "the window of the README" .venv/bin/python window.py
block toml >fleet.toml
step "holdfast check" .venv/bin/holdfast check fleet.toml
.venv/bin/holdfast run fleet.toml >"$folder/run.out" 2>&1 &
running=$!
step "holdfast run, until holdfast tail has answers" first_rows 20
.venv/bin/holdfast console fleet.toml >"$folder/console.out" 2>&1 &
console=$!
step "holdfast console, its page" page
kill $console
step "kill -9 of a replica, until there are more answers" kill_replica
kill $running
step "SIGTERM to holdfast run, until all has ended" wait $running $console
step "make docs" make docs
for name in roads machines billing; do
    step "make example NAME=$name" make example NAME=$name
done
[ -z "${WITH_TESTS:-}" ] || step "make test" make test
grep '^===' "$log"
