"""Packages that are only compared against, kept out of our environment in some of their own.

A peer is a script run in `.venv-peers/NAME`, which is made from `benchmarks/NAME.txt` on first use.
The script times itself and prints one JSON document to standard output.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from harness.parts import REPOSITORY

__all__ = ["PeerError", "peer_python", "run_peer"]

ENVIRONMENTS = REPOSITORY / ".venv-peers"
PINS = REPOSITORY / "benchmarks"


class PeerError(Exception):
    """A peer's script failed or printed something other than JSON."""


def run_peer(script: Path, *arguments: str, environment: str = "peers") -> Any:
    """Run a script in an environment of peers and return the JSON it prints."""
    return run_script(peer_python(environment), script, *arguments)


def run_script(python: Path, script: Path, *arguments: str) -> Any:
    ended = subprocess.run([python, script, *arguments], capture_output=True, text=True)
    if ended.returncode != 0:
        raise PeerError(f"{script.name} exited with {ended.returncode}:\n{ended.stderr}")
    try:
        return json.loads(ended.stdout)
    except json.JSONDecodeError as error:
        raise PeerError(f"{script.name} printed no JSON document: {error}") from error


def peer_python(name: str) -> Path:
    """The Python of an environment of peers, made anew whenever its pins have changed."""
    pins = PINS / f"{name}.txt"
    environment = ENVIRONMENTS / name
    python = environment / "bin" / "python"
    installed = environment / "installed-peers.txt"
    if not installed.exists() or installed.read_text() != pins.read_text():
        print(f"installing the peers of benchmarks/{pins.name}", flush=True)
        subprocess.run([REPOSITORY / "scripts" / "create-venv.sh", environment], check=True)
        quietly: list[Path | str] = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*quietly, "--requirement", pins], check=True)
        installed.write_text(pins.read_text())
    return python
