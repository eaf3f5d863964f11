"""A deployment to which rows come at a steady pace, so that there is something to do.

Sources and the client are in this process, each replica is a process of its own, as in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness.deployment import Deployment

__all__ = ["BUCKET", "MAX_DELAY", "ROWS_PER_SECOND", "SteadyDeployment", "running"]

BUCKET: Final = "500ms"
MAX_DELAY: Final = "2s"
SOURCES: Final = ("a", "b", "c")
AT_ONCE: Final = 100
ROWS_PER_SECOND: Final = 10 * AT_ONCE * len(SOURCES)


class SteadyDeployment(Deployment):
    at_once = AT_ONCE
    sensors = 20

    @property
    def pids(self) -> list[int]:
        return [process.leader.pid for process in self.processes.values()]


@contextmanager
def running(
    *, chain: int, replicas: int, warm: float, window: bool = False
) -> Iterator[SteadyDeployment]:
    """One that has run for `warm` seconds after it was ready."""
    with TemporaryDirectory(prefix="holdfast-nodes-") as folder:
        deployment = SteadyDeployment(
            Path(folder),
            bucket=BUCKET,
            max_delay=MAX_DELAY,
            replicas=replicas,
            chain=chain,
            window=window,
            sources=SOURCES,
        )
        with deployment:
            deployment.wait_until_ready()
            time.sleep(warm)
            yield deployment
