"""An edge on the screen: its nodes in tiers, and what is asked."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from holdfast.edge.layout import Layout
from holdfast.topology.spans import Span

__all__ = ["show_layout"]


def show_layout(layout: Layout, console: Console) -> None:
    table = Table(title=f"edge {layout.name}: {layout.guarantee}", title_justify="left")
    for column in ("tier", "group", "nodes"):
        table.add_column(column)
    table.add_row("root", "", f"root at {layout.root.address}")
    for group, members in layout.groups().items():
        for number, layer in reversed(list(enumerate(layout.layers(group), 1))):
            table.add_row(f"layer {number}", group, ", ".join(layer))
        table.add_row("children", group, ", ".join(members))
        sensors = [name for name, each in layout.sensors.items() if each.group == group]
        table.add_row("sensors", group, ", ".join(sensors) or "none in the file")
    console.print(table)
    for query in layout.asked():
        each = " for each key" if query.keyed else ""
        size, slide = Span(query.size), Span(query.slide)
        text = f"{query.id}: {query.aggregate}{each} over {size}, every {slide}"
        console.print(text, highlight=False, markup=False)
