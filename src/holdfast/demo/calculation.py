"""Calculation of the demonstration: as a topology, and once more in plain Python.

Sensors in three places; readings that are too low are left out; sums over the last seconds.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa

from holdfast.demo.answers import Answer
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.topology import Select, Sensors, Stage, Stream, Topology, Where, Window

__all__ = [
    "FIRST",
    "HERE",
    "LAST",
    "SIZE",
    "SLIDE",
    "SOURCES",
    "make_topology",
    "recalculate",
]

SOURCES: Final = ("north", "south", "west")
FIRST: Final = "clean"
LAST: Final = "sums"
MAX_DELAY: Final = "5s"
HERE: Final = "demo"
"""The host of the sources, which are not given processes."""
LEAST: Final = 12
"""Readings that are not above this are left out."""
SIZE: Final = 4
SLIDE: Final = 2
"""Windows of so many seconds, every so many seconds; a bucket is as long as a slide."""


def make_topology(folder: Path) -> Topology:
    """Sensors in three places, on free ports of this machine."""
    addresses = free_addresses(len(SOURCES) + 4)
    return Topology(
        name="demo",
        bucket=f"{SLIDE}s",
        streams={
            name: Stream(
                source=Sensors(rows_per_second=60, sensors=3, seed=seed),
                address=next(addresses),
                host=HERE,
            )
            for seed, name in enumerate(SOURCES)
        },
        stages={
            FIRST: Stage(
                inputs=SOURCES,
                replicas=[next(addresses), next(addresses)],
                max_delay=MAX_DELAY,
                shards=1,
                steps=[
                    Where(f"value > {LEAST}"),
                    Select(["sensor", "CAST(value * 1000 AS BIGINT) AS value"]),
                ],
            ),
            LAST: Stage(
                inputs=[FIRST],
                replicas=[next(addresses), next(addresses)],
                max_delay=MAX_DELAY,
                shards=1,
                steps=[
                    Window(
                        size=f"{SIZE}s",
                        slide=f"{SLIDE}s",
                        keys=["sensor"],
                        aggregates=["count() AS n", "sum(value) AS total"],
                    )
                ],
            ),
        },
        home=folder,
    )


def free_addresses(count: int) -> Iterator[str]:
    """On loopback, all different."""
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in taken]
    return iter([f"127.0.0.1:{port}" for port in ports])


def recalculate(readings: pa.Table, until: int) -> list[Answer]:
    """What a run without failures answers up to a boundary. `readings`: the logs of the sources."""
    size, slide = SIZE * 1_000_000, SLIDE * 1_000_000
    sums: dict[tuple[int, str], list[int]] = {}
    moments = readings[STIME].cast(pa.int64()).to_pylist()
    columns = (moments, readings["sensor"].to_pylist(), readings["value"].to_pylist())
    for moment, sensor, value in zip(*columns, strict=True):
        if not value > LEAST:
            continue
        first = moment // slide * slide + slide
        for end in range(first, first + size, slide):
            window = sums.setdefault((end, sensor), [0, 0])
            window[0] += 1
            window[1] += int(value * 1000)
    return [
        Answer(end, sensor, n, total)
        for (end, sensor), (n, total) in sorted(sums.items())
        if end <= until
    ]
