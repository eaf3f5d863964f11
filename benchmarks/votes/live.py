"""Each mode with real replicas on Spark: how long a bucket takes, and how many rows come through.

Four replicas of a stage, and one stage behind it that compares them, as `make soak PART=votes` has
them. They all share this machine's cores.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa

from harness.deployment import Deployment
from harness.streams import SCHEMA, SIZE
from harness.votes import PATIENCE, deploy
from harness.waiting import wait_for
from holdfast.pipeline.machine.tuples import Kind

__all__ = ["ALONE", "Lived", "live"]

ALONE: Final = "one replica, nothing compared"
WARM: Final = 10.0
"""Seconds of the stream before anything is measured."""
AT_ONCE: Final = 20_000
"""Rows that the source takes at a time when it has a backlog."""
KEPT: Final = 0.8
"""Of the rows, by the filter of the first stage."""
WINDOWS: Final = 2
"""In which every row is counted."""


@dataclass(frozen=True)
class Lived:
    p50: float
    """Seconds from the end of a bucket until the client has what follows from it."""
    longest: float
    buckets: int
    """Of which there were delays."""
    rate: float
    """Rows a second: a backlog, from the first row brought until all of it is at the client."""
    share: float
    """Of the backlog's rows that were in what came out; at-most-once modes may leave some out."""


def live(policy: str, seconds: float, rows: int) -> Lived:
    """The mode without faults: first a few rows a second, for so long, then so many at once."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-votes-") as name,
        _deployment(Path(name), policy) as deployment,
    ):
        deployment.wait_until_ready(PATIENCE)
        _go_on(deployment, WARM)
        since = len(deployment.told)
        _go_on(deployment, seconds)
        delays = list(deployment.delays(since))
        assert set(deployment.kinds(since)) == {Kind.INSERT}
        rate, share = _bring_backlog(deployment, rows)
    return Lived(median(delays), max(delays), len(delays), rate, share)


def _deployment(folder: Path, policy: str) -> Deployment:
    if policy == ALONE:
        return Deployment(folder, replicas=1, sources=("a",))
    return deploy(folder, policy)


def _go_on(deployment: Deployment, seconds: float) -> None:
    """Until the client has rows from so many seconds after now."""
    end = int((time.time() + seconds) * 1e6)
    wait_for("rows at the client", lambda: deployment.boundary > end, seconds + PATIENCE)


def _bring_backlog(deployment: Deployment, rows: int) -> tuple[float, float]:
    """Rows a second, and which share of them is in the windows that came out."""
    (source,) = deployment.sources.values()
    deployment.silent.add("a")
    _go_on(deployment, 2 * SIZE / 1e6)
    since = len(deployment.told)
    begun = time.time()
    for start, end in pairwise([*range(0, rows, AT_ONCE), rows]):
        values = np.arange(start, end)
        sensors = pa.array(np.char.add("a", (values % 100).astype(str)))
        source.take(pa.table([sensors, pa.array(values)], schema=SCHEMA))
    last = int(time.time() * 1e6)
    wait_for("the backlog", lambda: deployment.boundary > last, PATIENCE, 0.02)
    took = time.time() - begun
    _go_on(deployment, 2 * SIZE / 1e6)
    tables = [told.rows for _, told in deployment.told[since:] if told.rows is not None]
    counted = sum(sum(table["n"].to_pylist()) for table in tables)
    return rows / took, counted / (WINDOWS * KEPT * rows)
