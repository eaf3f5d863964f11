"""The bills of many cities in one job: examples/billing once for each folder `city-N` beside it.

Copied beside the example's file. So that four Spark applications, which take half a minute to start
on two cores, do many jobs one after the other.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from holdfast.verify import Job


def _make() -> Job:
    here = Path(__file__).resolve().parent
    once: Job = runpy.run_path(str(here / "billing.py"))["job"]
    every = Job("cities", slices=2, folder=here)
    for number in range(len(list(here.glob("city-*")))):
        for source in once.sources.values():
            every.source(
                f"{source.name}_{number}",
                f"city-{number}/{source.path}",
                format=source.format,
                schema=source.schema,
                options=dict(source.options),
            )
        for stage in once.stages.values():
            inputs = [f"{each}_{number}" for each in stage.inputs]
            every.stage(name=f"{stage.name}_{number}", inputs=inputs)(stage.make)
    return every


job = _make()
