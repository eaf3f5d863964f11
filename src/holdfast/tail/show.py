"""`holdfast tail STREAM`: prints a stream as it comes."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from holdfast.tail.lines import Lines
from holdfast.tail.reading import read_stream
from holdfast.topology import Topology

__all__ = ["tail"]

LOOK = 0.5
"""Seconds between two looks for gaps when nothing comes."""


def tail(
    topology: Topology,
    stream: str,
    console: Console,
    *,
    stable: bool = False,
    start: bool = False,
    rows: int | None = None,
    policy: str = "switch",
    faults: int = 1,
    routes: Mapping[str, str] | None = None,
) -> None:
    """Until Ctrl-C. `stable`: final rows only. `start`: from the oldest row that is kept, not from
    now on. `rows`: end after so many. `policy` and `faults`: how replicas are compared, as
    `read_stream` has it. `routes`: addresses of parties that are reached elsewhere."""
    lines = Lines(console)
    position = "oldest" if start else "newest"
    try:
        with read_stream(
            topology,
            stream,
            position=position,
            tentative=not stable,
            policy=policy,
            faults=faults,
            routes=routes,
        ) as reader:
            gaps = 0
            while rows is None or lines.rows < rows:
                told = reader.next(LOOK)
                for begin, end in reader.gaps[gaps:]:
                    gaps += 1
                    # There is nothing before the oldest row.
                    if begin:
                        lines.skip(begin, end)
                if told is not None:
                    lines.show(told, None if rows is None else rows - lines.rows)
    except KeyboardInterrupt:
        console.print("ended", style="dim")
