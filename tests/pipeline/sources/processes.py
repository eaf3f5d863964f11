"""Parties in processes of their own, to be killed in the middle of what they do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.pipeline.topology import Topology

__all__ = ["kill_after", "python", "save"]


def save(topology: Topology) -> Path:
    """The topology as a file in its home."""
    path = topology.home / f"{topology.name}.toml"
    path.write_text(topology.text())
    return path


@contextmanager
def python(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a script; killed at the end."""
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def kill_after(script: str, arguments: Sequence[object], lines: int) -> bool:
    """Run it and kill it when it has said so many lines; answers whether it said "done" before."""
    with python(script, *arguments) as process:
        assert process.stdout is not None
        for _ in range(lines):
            said = process.stdout.readline()
            assert said, "it has ended by itself"
            if said == "done\n":
                return True
    return False
