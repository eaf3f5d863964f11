"""Readings of a running edge: processor time by role, and bytes that children sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.processes import TICKS
from harness.edge import EdgeTrial

__all__ = ["ROLES", "cpu_by_role", "latency", "sent", "statuses"]

ROLES = ("sensor", "child", "root")


def cpu_by_role(trial: EdgeTrial) -> dict[str, float]:
    """Seconds of processors that the nodes of each role have used."""
    used = dict.fromkeys(ROLES, 0.0)
    for name, process in trial.fleet.processes.items():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        used[trial.layout.role(name)] += (int(fields[11]) + int(fields[12])) / TICKS
    return used


def statuses(trial: EdgeTrial) -> dict[str, Any]:
    """What each child says of itself."""
    return {name: trial.client.ask(name, "status", patience=10) for name in trial.layout.children}


def sent(before: dict[str, Any], after: dict[str, Any], kind: str) -> int:
    """Bytes of one kind of message that children sent between two of their statuses."""
    return sum(
        after[name]["bytes"].get(kind, 0) - before[name]["bytes"].get(kind, 0) for name in after
    )


def latency(window: dict[str, Any]) -> float:
    """Milliseconds from the last event of a window to its completion at the root."""
    return float(window["at"] - window["newest"]) / 1e3
