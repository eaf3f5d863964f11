"""Packages that are only compared against, kept out of our environment in one of their own.

A peer is a script run in `.venv-peers`, which is made from `benchmarks/peers.txt` on first use.
The script times itself and prints one JSON document to standard output.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.parts import REPOSITORY

__all__ = ["PeerError", "run_peer"]

ENVIRONMENT = REPOSITORY / ".venv-peers"
PINS = REPOSITORY / "benchmarks" / "peers.txt"


class PeerError(Exception):
    """A peer's script failed or printed something other than JSON."""


def run_peer(script: Path, *arguments: str) -> Any:
    """Run a script in the peers' environment and return the JSON it prints."""
    return run_script(peer_python(), script, *arguments)


def run_script(python: Path, script: Path, *arguments: str) -> Any:
    ended = subprocess.run([python, script, *arguments], capture_output=True, text=True)
    if ended.returncode != 0:
        raise PeerError(f"{script.name} exited with {ended.returncode}:\n{ended.stderr}")
    try:
        return json.loads(ended.stdout)
    except json.JSONDecodeError as error:
        raise PeerError(f"{script.name} printed no JSON document: {error}") from error


def peer_python() -> Path:
    """The Python of the peers' environment, made anew whenever its pins have changed."""
    python = ENVIRONMENT / "bin" / "python"
    installed = ENVIRONMENT / "installed-peers.txt"
    if not installed.exists() or installed.read_text() != PINS.read_text():
        print("installing the peers of benchmarks/peers.txt", flush=True)
        subprocess.run([REPOSITORY / "scripts" / "create-venv.sh", ENVIRONMENT], check=True)
        install: list[Path | str] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--requirement",
            PINS,
        ]
        subprocess.run(install, check=True)
        installed.write_text(PINS.read_text())
    return python
