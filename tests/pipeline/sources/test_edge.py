"""The root of an edge as a source: windows are rows, and a restart neither loses nor doubles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.edge.machine import Window
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import Expected, write_plant
from holdfast.edge.process.fleet import Fleet
from holdfast.edge.process.root_process import RootNode
from holdfast.pipeline.sources.edge import _rows
from holdfast.pipeline.topology import Edge
from tests.pipeline.sources.rig import Taker, alone, running, wait_for

QUERIES = {
    "count": {"aggregate": "count", "size": "500ms"},
    "sum": {"aggregate": "sum", "size": "1s", "slide": "500ms", "keyed": True},
}


write_memory = RootNode._write_memory


def fail_after(rows: int, party: Taker) -> Callable[[RootNode], None]:
    def write(node: RootNode) -> None:
        if party.rows > rows:
            raise RuntimeError("killed")
        write_memory(node)

    return write


def test_windows_are_rows_and_a_restart_neither_loses_nor_doubles_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_plant(tmp_path, children=2, sensors=1, rate=500, keys=2, queries=QUERIES)
    layout = Layout.read(file)
    topology = alone(tmp_path, Edge(path=file.name))
    party = Taker()
    memory = topology.state_folder / next(iter(topology.streams)) / "root.memory"
    memory.parent.mkdir(parents=True, exist_ok=True)
    with Fleet(layout, file, tmp_path / "logs") as fleet:
        fleet.start(*layout.children, *layout.sensors)
        for life in range(3):
            with running(topology, party) as driver:
                wait_for(lambda wanted=party.rows + 12: party.rows > wanted)
                if life == 1:
                    # As if it were killed after rows were logged, before anything else.
                    with monkeypatch.context() as patch:
                        patch.setattr(RootNode, "_write_memory", fail_after(party.rows, party))
                        driver.ended.wait(20)
            assert (driver.failure is not None) == (life == 1)
        report = json.loads(fleet.report("s1").read_text())
    rows = party.table().to_pylist()
    assert len(rows) > 36
    counts = [row for row in rows if row["query"] == "count"]
    starts = [row["start"] for row in counts]
    assert len(set(starts)) == len(starts)
    expected = Expected(layout, [report])
    windows: dict[tuple[str, int], object] = {}
    for row in rows:
        start, end = (round(row[each].timestamp() * 1e6) for each in ("start", "end"))
        right = expected.answer({"query": row["query"], "start": start, "end": end})
        value = right[row["key"]] if row["query"] == "sum" else right
        assert row["value"] == value
        assert row["complete"]
        windows[row["query"], start] = True
    counted = sorted(start for query, start in windows if query == "count")
    assert counted == list(range(counted[0], counted[-1] + 1, 500_000))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (5, [(None, 5.0, "5")]),
        (None, [(None, None, None)]),
        ([2.0, 1.0], [(None, None, "[2.0, 1.0]")]),
        ({"a": 1, "b": float("inf")}, [("a", 1.0, "1"), ("b", float("inf"), '"Infinity"')]),
        ({}, [(None, None, None)]),
    ],
)
def test_each_window_has_a_row_that_says_what_it_lacks(answer: object, found: object) -> None:
    window = Window("q", 1, 2, answer, False, 7, 1, 2, 3, ("c1",), 1, 1, 4)
    rows = list(_rows({**asdict(window), "at": 3}))
    assert [(row["key"], row["value"], row["answer"]) for row in rows] == found
    said = [row[name] for row in rows for name in ("complete", "missing", "late", "refused")]
    assert said == [False, 7, 3, 4] * len(rows)
    assert all(row.keys() == {column.name for column in Edge.schema} for row in rows)
