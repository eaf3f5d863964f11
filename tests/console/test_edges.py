"""Edge groups as a table of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.console.edges import COLUMNS, edge_panels, edge_table
from holdfast.edge.layout import Layout
from holdfast.topology import Edge, Stream, Topology

EDGE = """
[root]
address = "127.0.0.1:7900"

[children.c1]
address = "127.0.0.1:7901"

[children.c2]
address = "127.0.0.1:7902"

[queries.count]
aggregate = "count"
size = "1s"
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "edge.toml").write_text(EDGE)
    return Layout.read(tmp_path / "edge.toml")


def child(**changes: Any) -> dict[str, Any]:
    said = {
        "ready": True,
        "owned": [0, 1],
        "takeovers": 1,
        "reinstatements": 0,
        "phi": {"c2": 12.34},
        "events": 1200,
        "replayed": 32,
        "lost": 0,
    }
    return said | changes


def test_who_owns_what_and_who_is_suspected(layout: Layout) -> None:
    table = edge_table(layout, {"c1": child(), "c2": None})
    assert table.columns == COLUMNS
    assert table.rows == [
        ["c1", "alive", "", "p0, p1", 1, 0, 1200, 32, 0],
        ["c2", "silent", "12.3 by c1", "", "", "", "", "", ""],
    ]
    assert table.note == "a phi of 8 is taken for a failure"


def test_one_that_waits_and_one_that_is_surely_gone(layout: Layout) -> None:
    table = edge_table(layout, {"c1": child(phi={"c2": 3000.0}), "c2": {"ready": False}})
    assert table.rows[1][1:3] == ["waits for its group", "over 99 by c1"]


def test_a_stream_that_comes_from_an_edge_has_a_panel(layout: Layout) -> None:
    topology = Topology(
        name="plant",
        bucket="1s",
        streams={
            "plant": Stream(source=Edge(path="edge.toml"), address="127.0.0.1:7001", time="end")
        },
        home=layout.home,
    )
    [panel] = edge_panels(topology)
    assert panel.title == "Edge of plant"
    # Nobody runs: all are silent, and it is told within the second.
    assert [row[1] for row in panel.ask().rows] == ["silent", "silent"]
    panel.close()
