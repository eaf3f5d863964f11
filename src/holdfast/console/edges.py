"""Edge groups on the page: what the nodes of an edge file say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.console.panels import Cell, Mark, Panel, Table
from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.errors import SilentError
from holdfast.pipeline.topology import Edge, Topology

ANSWER: Final = 0.3
"""Seconds for a node to say how it is."""
COLUMNS: Final = (
    "Node",
    "State",
    "Suspected most",
    "Owns",
    "Take-overs",
    "Given back",
    "Events",
    "Re-streamed",
    "Lost",
)
MOST_PEERS: Final = 12
"""With more nodes than this the phi of each pair is too much to look at."""


def edge_panels(topology: Topology) -> list[Panel]:
    """A panel for each stream that comes from an edge."""
    return [
        _panel(name, Layout.read(topology.path(stream.source.path)))
        for name, stream in topology.streams.items()
        if isinstance(stream.source, Edge)
    ]


def _panel(stream: str, layout: Layout) -> Panel:
    asked: list[Client] = []

    def ask() -> list[Table]:
        # Made by the thread that uses it.
        if not asked:
            asked.append(Client(layout))
        return edge_tables(layout, _ask_all(asked[0], layout))

    def close() -> None:
        for client in asked:
            client.close()

    return Panel(f"edge-{stream}", f"Edge of {stream}", ask, close)


def _ask_all(client: Client, layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (*layout.children, *layout.intermediates):
        try:
            found[name] = client.ask(name, "status", patience=ANSWER)
        except SilentError:
            found[name] = None
    return found


def edge_tables(layout: Layout, statuses: Mapping[str, Any]) -> list[Table]:
    """Who owns what, what was taken over, how much each is suspected and by whom."""
    names = (*layout.children, *layout.intermediates)
    rows = [[name, *_cells(name, statuses.get(name), statuses)] for name in names]
    note = f"a phi of {layout.threshold:g} is taken for a failure"
    if len(names) > MOST_PEERS:
        return [Table(COLUMNS, rows, note)]
    suspicions = [[name, *_suspicions(statuses.get(name), names, layout)] for name in names]
    return [
        Table(COLUMNS, rows, title="Nodes"),
        Table(("Seen by", *names), suspicions, note, title="Phi of each peer"),
    ]


def _suspicions(said: Any, names: Iterable[str], layout: Layout) -> list[Cell]:
    told = said.get("phi", {}) if isinstance(said, dict) else {}
    return [_phi(float(told[name]), layout.threshold) if name in told else None for name in names]


def _phi(phi: float, threshold: float) -> Cell:
    shown = min(round(phi, 1), 99.9)
    return shown if phi < threshold else Mark(shown, "gone")


def _cells(name: str, said: Any, statuses: Mapping[str, Any]) -> list[Cell]:
    phi = _most_suspected(name, statuses)
    if not isinstance(said, dict):
        return [Mark("silent", "gone"), phi, "", None, None, None, None, None]
    owned = ", ".join(f"p{each}" for each in said.get("owned", []))
    counts = [said.get(each) for each in ("takeovers", "reinstatements")]
    events = [said.get(each) for each in ("events", "replayed", "lost")]
    state = Mark("alive", "stable") if said.get("ready") else Mark("waits for its group", "silent")
    return [state, phi, owned, *counts, *events]


def _most_suspected(name: str, statuses: Mapping[str, Any]) -> str:
    said: Iterable[tuple[float, str]] = [
        (float(each["phi"][name]), peer)
        for peer, each in statuses.items()
        if isinstance(each, dict) and name in each.get("phi", {})
    ]
    if not said:
        return ""
    phi, peer = max(said)
    return f"{'over 99' if phi > 99 else f'{phi:.1f}'} by {peer}"
