from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from holdfast.demo.answers import Answer
from holdfast.demo.calculation import SOURCES, make_topology, recalculate
from holdfast.pipeline.topology import Topology

SECOND = 1_000_000


def readings(*rows: tuple[int, str, float]) -> pa.Table:
    times, sensors, values = zip(*rows, strict=True)
    moments = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"stime": moments, "sensor": sensors, "value": values})


def test_the_topology_has_two_replicas_of_each_stage_on_ports_of_their_own(tmp_path: Path) -> None:
    parties = make_topology(tmp_path).parties()
    assert list(parties) == [*SOURCES, "clean/1", "clean/2", "sums/1", "sums/2"]
    assert len({party.address for party in parties.values()}) == len(parties)


def test_the_topology_can_be_read_from_its_file(tmp_path: Path) -> None:
    topology = make_topology(tmp_path)
    file = tmp_path / "demo.toml"
    file.write_text(topology.text())
    assert Topology.read(file) == topology


def test_a_reading_counts_in_the_two_windows_that_cover_it() -> None:
    rows = readings((10 * SECOND, "a", 20.5), (14 * SECOND - 1, "a", 13.25))
    assert recalculate(rows, until=100 * SECOND) == [
        Answer(12 * SECOND, "a", 1, 20_500),
        Answer(14 * SECOND, "a", 2, 33_750),
        Answer(16 * SECOND, "a", 1, 13_250),
    ]


def test_low_readings_are_left_out_and_sensors_kept_apart() -> None:
    rows = readings((0, "b", 12.0), (0, "b", 12.5), (0, "a", 30.0), (1, "a", 3.0))
    assert recalculate(rows, until=2 * SECOND) == [
        Answer(2 * SECOND, "a", 1, 30_000),
        Answer(2 * SECOND, "b", 1, 12_500),
    ]


def test_windows_that_end_after_the_boundary_are_not_answered_yet() -> None:
    rows = readings((0, "a", 20.0))
    assert [each.end for each in recalculate(rows, until=3 * SECOND)] == [2 * SECOND]
