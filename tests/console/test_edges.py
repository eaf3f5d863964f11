"""Edge groups as a table of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.console.edges import COLUMNS, MOST_PEERS, edge_panels, edge_tables
from holdfast.console.panels import Mark, Table
from holdfast.edge.process.config import Layout
from holdfast.pipeline.topology import Edge, Stream, Topology

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
    nodes, peers = edge_tables(layout, {"c1": child(), "c2": None})
    assert nodes.columns == COLUMNS
    assert nodes.rows == [
        ["c1", Mark("alive", "stable"), "", "p0, p1", 1, 0, 1200, 32, 0],
        ["c2", Mark("silent", "gone"), "12.3 by c1", "", None, None, None, None, None],
    ]
    assert peers.columns == ("Seen by", "c1", "c2")
    assert peers.rows == [["c1", None, Mark(12.3, "gone")], ["c2", None, None]]
    assert peers.note == "a phi of 8 is taken for a failure"


def test_one_that_waits_and_one_that_is_surely_gone(layout: Layout) -> None:
    statuses = {"c1": child(phi={"c2": 3000.0}), "c2": {"ready": False, "phi": {"c1": 0.31}}}
    nodes, peers = edge_tables(layout, statuses)
    assert nodes.rows[1][1:3] == [Mark("waits for its group", "silent"), "over 99 by c1"]
    assert peers.rows == [["c1", None, Mark(99.9, "gone")], ["c2", 0.3, None]]


def test_many_nodes_are_one_table(tmp_path: Path) -> None:
    children = "".join(
        f'[children.c{at}]\naddress = "127.0.0.1:{8000 + at}"\n' for at in range(MOST_PEERS + 1)
    )
    (tmp_path / "edge.toml").write_text(
        EDGE.partition("[children.c1]")[0]
        + children
        + "[queries.count]"
        + EDGE.partition("count]")[2]
    )
    [table] = edge_tables(Layout.read(tmp_path / "edge.toml"), {})
    assert len(table.rows) == MOST_PEERS + 1
    assert "phi of 8" in table.note


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
    tables = panel.ask()
    assert not isinstance(tables, Table)
    assert [row[1] for row in tables[0].rows] == [Mark("silent", "gone")] * 2
    panel.close()
