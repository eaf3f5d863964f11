"""A topology drawn as text: columns of boxes from sources to sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.topology.boxes import Box, boxes_of
from holdfast.topology.parties import PartyKind

if TYPE_CHECKING:
    from holdfast.topology.topology import Topology

__all__ = ["print_topology"]

COLOURS: Final = {PartyKind.SOURCE: "green", PartyKind.REPLICA: "blue", PartyKind.SINK: "magenta"}
ARROW: Final = " ─▶ "
FRAME: Final = 4
"""What a panel adds to the width of its lines."""


def print_topology(topology: Topology, console: Console) -> None:
    """Layers side by side, or one below the other on a screen that is too narrow."""
    boxes = boxes_of(topology)
    layers = [[boxes[name] for name in layer] for layer in topology.layers()]
    widths = [max(_width(box) for box in layer) + FRAME for layer in layers]
    if sum(widths) + len(ARROW) * (len(layers) - 1) <= console.width:
        console.print(_side_by_side(layers, widths))
    else:
        for number, layer in enumerate(layers):
            if number:
                console.print("  │\n  ▼", highlight=False)
            console.print(Columns([_panel(box) for box in layer]))


def _side_by_side(layers: list[list[Box]], widths: list[int]) -> RenderableType:
    grid = Table.grid()
    cells: list[RenderableType] = []
    for number, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        if number:
            grid.add_column(vertical="middle", no_wrap=True)
            cells.append(Text(ARROW))
        grid.add_column(vertical="middle", width=width)
        cells.append(Group(*(_panel(box, width) for box in layer)))
    grid.add_row(*cells)
    return grid


def _from(box: Box) -> str:
    return f"◀ {', '.join(box.inputs)}" if box.inputs else ""


def _width(box: Box) -> int:
    return max(box.width, len(_from(box)))


def _panel(box: Box, width: int | None = None) -> Panel:
    colour = COLOURS[box.kind]
    lines = [Text(_from(box), style="dim")] if box.inputs else []
    lines += [Text(fact) for fact in box.facts]
    lines += [Text(replica, style=colour) for replica in box.replicas]
    return Panel(
        Group(*lines),
        title=Text(box.name, style=f"bold {colour}"),
        title_align="left",
        border_style=colour,
        width=width if width is not None else _width(box) + FRAME,
    )
