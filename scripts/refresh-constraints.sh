#!/usr/bin/env bash
# Pin the newest versions that fit: constraints.txt from pyproject.toml, the peers of the benchmarks
# from benchmarks/*peers.in. Only names and versions are written, so any index can serve them.
set -euo pipefail

pin() { # FILE REQUIREMENT...
    local file=$1 environment=.build
    shift
    rm -rf "$environment"
    scripts/create-venv.sh "$environment"
    "$environment/bin/python" -m pip install --quiet "$@"
    {
        echo "# Exact versions of everything, transitive ones included. Refresh: make constraints"
        "$environment/bin/python" -m pip list --format=freeze --exclude holdfast --exclude pip --exclude setuptools
    } >"$file.new"
    mv "$file.new" "$file"
    rm -rf "$environment"
    echo "wrote $file"
}

pin constraints.txt '.[fast,dev]'
pin benchmarks/peers.txt --requirement benchmarks/peers.in
pin benchmarks/stream-peers.txt --requirement benchmarks/stream-peers.in
