"""The parts of the benchmark `edge` that are arithmetic, and one of its runs on a small edge."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.edge.carriers import DeltaCrdt, Plain, frames, is_exact_after_both_added
from benchmarks.edge.feed import lines
from benchmarks.edge.grid import OFF, cells, settings_of
from benchmarks.edge.inputs import KINDS, cost_of
from benchmarks.edge.latency import Broken, _report_replay, next_start, percentile
from benchmarks.edge.scale import FULL, QUICK, SMOKE, Scale
from benchmarks.report import Report
from holdfast.crdt import JOINS
from holdfast.edge.machine import aggregates
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.event_input import Lines, Simulated


@pytest.mark.parametrize("keys", [0, 7])
def test_lines_are_the_events_they_stand_for(keys: int) -> None:
    simulated = Simulated("s1", 1_790_000_000_123_457, 18_300, seed=3, keys=keys)
    text = lines(simulated, 40, 1_040)
    reader = Lines("jsonl", lambda: simulated.start)
    times, values, names = reader.feed(text)
    right = simulated.events(40, 1_040)
    assert reader.bad == 0
    assert times.tolist() == right[0].tolist()
    assert values.tolist() == right[1].tolist()
    assert names == right[2]


@pytest.mark.parametrize("scale", [FULL, QUICK, SMOKE])
def test_every_cell_of_the_grid_is_an_edge_that_may_run(tmp_path: Path, scale: Scale) -> None:
    window = scale.grid_window
    layouts = {}
    for heartbeat, sync in cells(scale):
        file = write_plant(
            tmp_path / f"{heartbeat}-{sync}",
            queries={"count": {"aggregate": "count", "size": f"{window}s"}},
            settings=settings_of(heartbeat, sync, window),
        )
        layouts[heartbeat, sync] = Layout.read(file)
    assert [cell for cell, layout in layouts.items() if not layout.detection] == [(OFF, OFF)]
    assert next(iter(layouts)) == (OFF, OFF), "what the others are compared with"
    shortest = layouts["100ms", "100ms"]
    assert (int(shortest.heartbeat), int(shortest.sync)) == (100_000, 100_000)
    # The longest replication that counts as off does not happen within a run.
    assert int(layouts["100ms", OFF].sync) > 100 * window * 1_000_000


def test_the_full_grid_is_that_of_the_thesis() -> None:
    assert {each for cell in cells(FULL) for each in cell} == {OFF, "100ms", "1s", "5s"}
    assert len(cells(FULL)) == 16
    assert (FULL.sensors, FULL.rate, FULL.children) == (6, 18_300, 8)
    assert FULL.silent >= 20


@pytest.mark.parametrize("now", [0, 3_999_999, 4_000_000, 1_790_000_000_000_000])
def test_windows_of_full_replay_begin_with_a_cut(now: int) -> None:
    """Children cut in the middle of `sync`: of two windows that is where the second begins."""
    size = 4_000_000
    start = next_start(now, size, every=2)
    assert start % (2 * size) == size
    assert 300_000 <= start - now <= 3 * size
    assert next_start(now, size) <= start


def test_percentiles_are_figures_that_were_measured() -> None:
    found = [float(n) for n in range(1, 21)]
    assert [percentile(found, share) for share in (0.25, 0.5, 0.95, 1)] == [5, 10, 19, 20]
    assert percentile([3.0], 0.95) == 3


def test_tail_replay_is_held_against_full_replay() -> None:
    report = Report("edge", Console(file=StringIO()))
    tail = {(point, 1): [Broken(10, 9, 1_000)] * 2 for point in ("early", "middle", "end")}
    full = {"early": [Broken(12, 9, 9_000)] * 2, "middle": [Broken(15, 9, 18_000)] * 2}
    ends = [Broken(90, 9, 30_000), Broken(80, 9, 34_000)]
    _report_replay(report, SMOKE, tail, {**full, "end": ends})
    (claim,) = report.claims
    assert (claim.figure, claim.spread, claim.holds) == (32, (30, 34), True)
    _report_replay(report, SMOKE, tail, {**full, "end": [Broken(90, 9, 3_000)] * 2})
    assert not report.holds


@pytest.mark.parametrize("kind", aggregates.KINDS)
def test_slots_with_partials_and_with_crdts_come_to_the_same(kind: str) -> None:
    plain, crdt = Plain(kind), DeltaCrdt(kind)
    made = aggregates.aggregate(kind)
    for values in frames(3):
        assert 0 < plain.cut(values) < crdt.cut(values)
    right = made.answer(made.add(made.empty(), np.concatenate(frames(3))))
    assert plain.answer() == crdt.answer() == right


@pytest.mark.parametrize("kind", aggregates.KINDS)
def test_what_two_children_add_counts_once_in_a_slot_alone(kind: str) -> None:
    assert is_exact_after_both_added(Plain, kind)
    assert is_exact_after_both_added(DeltaCrdt, kind) == (kind in JOINS)


def test_json_lines_with_keys_are_measured_on_a_real_edge() -> None:
    """`cost_of` itself recalculates the windows that it measures."""
    scale = replace(SMOKE, sensors=1, children=2, rate=300, input_window=1, input_windows=2)
    cost = cost_of(KINDS[-1], scale)
    assert cost.rate == pytest.approx(300, rel=0.01)
    assert all(cost.cores[role] > 0 for role in ("sensor", "child"))
    assert cost.latency > 0
