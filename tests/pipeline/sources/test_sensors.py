"""Simulated sensors: the same rows from the same seed, wherever they are cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.sources.simulated import readings
from holdfast.pipeline.topology import Sensors
from tests.pipeline.sources.rig import Taker, alone, running, wait_for


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=5))
def test_rows_do_not_depend_on_how_they_are_cut(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), 3000]
    pieces = [readings(7, 13, first, last) for first, last in pairwise(edges)]
    assert pa.concat_tables(pieces).equals(readings(7, 13, 0, 3000))


def test_values_wander() -> None:
    table = readings(1, 2, 0, 2000).to_pandas()
    assert set(table["sensor"]) == {"sensor-0", "sensor-1"}
    assert 5 < table["value"].min() < 15 < 25 < table["value"].max() < 35
    assert not readings(2, 2, 0, 10).equals(readings(1, 2, 0, 10))


def test_a_source_goes_on_where_it_was(tmp_path: Path) -> None:
    topology = alone(tmp_path, Sensors(rows_per_second=2000, sensors=5, seed=3))
    party = Taker()
    for _ in range(2):
        before = party.rows
        with running(topology, party) as driver:
            wait_for(lambda wanted=before + 100: party.rows > wanted)
        assert driver.failure is None
    assert party.place == party.rows
    assert party.table().equals(readings(3, 5, 0, party.rows))
