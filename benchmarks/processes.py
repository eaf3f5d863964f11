"""A process and all that it started, and what they have used, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Usage", "family_of", "usage_of"]

PROC: Final = Path("/proc")
TICKS: Final = os.sysconf("SC_CLK_TCK")
PARENT, CPU_FIELDS = 1, slice(11, 15)
"""In /proc/PID/stat, after the name: the parent, and the time of itself and its dead children."""


@dataclass(frozen=True)
class Usage:
    cpu: float
    """Seconds, with those of processes that have ended and were waited for."""
    resident: int
    """Bytes, each process's own share of what it shares with others."""
    processes: int


def family_of(root: int) -> list[int]:
    """The process and its descendants."""
    return _family([root], dict(_stats()))


def usage_of(*roots: int) -> Usage:
    """Of these processes and their descendants."""
    stats = dict(_stats())
    family = _family(roots, stats)
    ticks = sum(int(each) for pid in family if pid in stats for each in stats[pid][CPU_FIELDS])
    return Usage(ticks / TICKS, sum(map(_resident, family)), len(family))


def _stats() -> Iterable[tuple[int, list[str]]]:
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "stat").read_text()
            except OSError:
                continue
            # The name is in parentheses and may have anything in it.
            yield int(folder.name), text.rpartition(")")[2].split()


def _family(roots: Iterable[int], stats: Mapping[int, list[str]]) -> list[int]:
    found = []
    for pid in roots:
        children = [child for child, stat in stats.items() if int(stat[PARENT]) == pid]
        found += [pid, *_family(children, stats)]
    return found


def _resident(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
