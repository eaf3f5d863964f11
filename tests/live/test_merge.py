"""Windows of an edge that flow on in Spark: a stage with the gate `merge`, a child killed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.ports import free_port
from harness.processes import Family, spark_environment
from harness.waiting import wait_for
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import Expected, write_plant
from holdfast.edge.process.fleet import Fleet
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.tail import read_stream
from holdfast.pipeline.topology import Topology

SECOND = 1_000_000
SIZE = 2 * SECOND

TOPOLOGY = """
bucket = "500ms"
[streams.plant]
source = "edge"
path = "plant.toml"
address = "127.0.0.1:{plant}"
time = "end"

[stages.load]
inputs = ["plant"]
replicas = ["127.0.0.1:{load}"]
policy = "merge"
shards = 1
steps = [
  {{ where = "query = 'count' AND complete" }},
  {{ window = {{ size = "2s", aggregates = ["count() AS n", "sum(value) AS events"] }} }},
]
"""


@contextmanager
def running(topology: Path, *parties: str) -> Iterator[None]:
    folder = topology.parent
    with ExitStack() as stack:
        for party in parties:
            command = [sys.executable, "-m", "holdfast", "node", str(topology), party]
            if "/" in party:
                command += ["--master", "local[1]"]
            log = f"{party.replace('/', '-')}.log"
            family = Family(command, folder, spark_environment(folder), log=log)
            stack.callback(family.kill)
        yield


@pytest.mark.timeout(300)
def test_what_spark_makes_of_the_windows_is_what_the_sensors_emitted(tmp_path: Path) -> None:
    queries = {"count": {"aggregate": "count", "size": "1s"}}
    plant = write_plant(tmp_path, children=3, sensors=2, rate=1_000, queries=queries)
    layout = Layout.read(plant)
    file = tmp_path / "topology.toml"
    file.write_text(TOPOLOGY.format(plant=free_port(), load=free_port()))
    topology = Topology.read(file)
    windows: dict[int, dict[str, Any]] = {}
    with (
        Fleet(layout, plant, tmp_path / "logs") as fleet,
        running(file, "plant", "load/1"),
        read_stream(topology, "load", position=0) as reader,
    ):
        fleet.start(*layout.children, *layout.sensors)

        def hear() -> int:
            """The start of the newest window, by the time of the events in it."""
            fleet.check()
            told = reader.next(0.5)
            if told is not None and told.rows is not None:
                assert told.kind is Kind.INSERT
                for window in told.rows.to_pylist():
                    # A window of the edge has the time of its end.
                    end = round(window["window"]["end"].timestamp() * SECOND) - SECOND
                    assert end - SIZE not in windows, "no window comes twice"
                    windows[end - SIZE] = window
            return max(windows, default=0)

        wait_for("the first window", hear, 120, 0)
        # Into the middle of a window of the edge.
        time.sleep(1.5 - time.time() % 1)
        fleet.kill("c2")
        killed = round(time.time() * SECOND)
        wait_for("windows from after the kill", lambda: hear() > killed, 60, 0)
        reports = [json.loads(fleet.report(name).read_text()) for name in layout.sensors]
    right = Expected(layout, reports)
    began = max(report["start"] for report in reports)
    whole = {start: window for start, window in windows.items() if start >= began}
    assert any(start <= killed < start + SIZE for start in whole)
    for start, window in whole.items():
        assert window["n"] == SIZE // SECOND
        assert window["events"] == right.events(start, start + SIZE)
