"""Drawings of a topology: as text, and as SVG.

Written by hand, so that drawing loads nothing and the same topology gives the same file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as Xml

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pipeline.topology.policies import VOTING
from holdfast.pipeline.topology.sinks import SINKS, Sink, SqlTable
from holdfast.pipeline.topology.stages import Function, Join, Stage, Step, Window
from holdfast.pipeline.topology.streams import SOURCES
from holdfast.pipeline.topology.topology import PartyKind

if TYPE_CHECKING:
    from holdfast.pipeline.topology.topology import Topology


LONGEST_LINE = 44
MOST_REPLICAS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a drawing."""

    name: str
    kind: PartyKind
    inputs: tuple[str, ...]
    facts: tuple[str, ...]
    """A line each."""
    replicas: tuple[str, ...] = ()
    """Of a stage: a line each."""

    @property
    def width(self) -> int:
        """In letters."""
        return max(map(len, (self.name, *self.facts, *self.replicas)))


def boxes_of(topology: Topology) -> Mapping[str, Box]:
    """All boxes by name."""
    boxes = {}
    for name, stream in topology.streams.items():
        word = next(word for word, kind in SOURCES.items() if isinstance(stream.source, kind))
        facts = [f"source {word}", stream.address]
        if stream.time is not None:
            late = f", {stream.lateness} late" if stream.lateness else ""
            facts.append(f"time {stream.time}{late}")
        boxes[name] = _box(name, PartyKind.SOURCE, (), facts)
    for name, stage in topology.stages.items():
        facts = [_gate(stage), *map(_step, stage.steps)]
        boxes[name] = _box(name, PartyKind.REPLICA, stage.inputs, facts, _replicas(topology, name))
    for name, sink in topology.sinks.items():
        word = next(word for word, kind in SINKS.items() if isinstance(sink.sink, kind))
        facts = [f"sink {word}"]
        # The URL of a database may hold a password.
        if isinstance(sink.sink, SqlTable):
            facts.append(f"table {sink.sink.table}")
        elif target := getattr(sink.sink, "path", getattr(sink.sink, "function", None)):
            facts.append(target)
        if sink.policy != "switch":
            facts.append(_comparison(sink))
        if sink.tentative:
            facts.append("tentative rows too")
        boxes[name] = _box(name, PartyKind.SINK, (sink.stream,), facts)
    return boxes


def _box(
    name: str,
    kind: PartyKind,
    inputs: tuple[str, ...],
    facts: list[str],
    replicas: tuple[str, ...] = (),
) -> Box:
    return Box(name, kind, inputs, tuple(map(_cut, facts)), tuple(map(_cut, replicas)))


def _cut(line: str) -> str:
    flat = " ".join(line.split())
    return flat if len(flat) <= LONGEST_LINE else flat[: LONGEST_LINE - 1] + "…"


def _gate(stage: Stage) -> str:
    if stage.policy == "switch":
        delay = "forever" if stage.max_delay == math.inf else str(stage.max_delay)
        return f"switch, max_delay {delay}"
    if stage.is_shared:
        return f"share, {stage.routing}, {stage.guarantee}"
    return _comparison(stage)


def _comparison(reader: Stage | Sink) -> str:
    if reader.policy not in VOTING:
        return reader.policy
    sampled = f", every {reader.every}" if reader.policy == "sample" else ""
    return f"{reader.policy}, faults {reader.faults}{sampled}"


def _step(step: Step) -> str:
    match step:
        case Join():
            return f"join {', '.join(step.keys)} within {step.within}"
        case Window():
            slide = "" if step.slide in (None, step.size) else f" every {step.slide}"
            keys = f" by {', '.join(step.keys)}" if step.keys else ""
            return f"window {step.size}{slide}{keys}"
        case Function():
            return f"function {step.function}"
        case _:
            return type(step).__name__.lower()


def _replicas(topology: Topology, stage: str) -> tuple[str, ...]:
    replicas = topology.stages[stage].replicas
    lines = [
        f"{number} {replica.address}{f' on {replica.host}' if replica.host else ''}"
        for number, replica in enumerate(replicas[:MOST_REPLICAS], 1)
    ]
    if len(replicas) > MOST_REPLICAS:
        lines.append(f"and {len(replicas) - MOST_REPLICAS} more")
    return tuple(lines)


TEXT_COLOURS: Final = {
    PartyKind.SOURCE: "green",
    PartyKind.REPLICA: "blue",
    PartyKind.SINK: "magenta",
}
ARROW: Final = " ─▶ "
FRAME: Final = 4
"""What a panel adds to the width of its lines."""


def print_topology(topology: Topology, console: Console) -> None:
    """Layers side by side, or one below the other on a screen that is too narrow."""
    boxes = boxes_of(topology)
    layers = [[boxes[name] for name in layer] for layer in topology.layers()]
    widths = [max(_text_width(box) for box in layer) + FRAME for layer in layers]
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


def _text_width(box: Box) -> int:
    return max(box.width, len(_from(box)))


def _panel(box: Box, width: int | None = None) -> Panel:
    colour = TEXT_COLOURS[box.kind]
    lines = [Text(_from(box), style="dim")] if box.inputs else []
    lines += [Text(fact) for fact in box.facts]
    lines += [Text(replica, style=colour) for replica in box.replicas]
    return Panel(
        Group(*lines),
        title=Text(box.name, style=f"bold {colour}"),
        title_align="left",
        border_style=colour,
        width=width if width is not None else _text_width(box) + FRAME,
    )


COLOURS: Final = {
    PartyKind.SOURCE: "#2e7d32",
    PartyKind.REPLICA: "#1565c0",
    PartyKind.SINK: "#6a1b9a",
}
GREY, LINE, PAPER = "#52606d", "#9aa5b1", "#ffffff"

LETTER: Final = 7.3
"""The width of a letter of the font, at its size of 12."""
ROW, HEAD, PAD = 18, 26, 12
MARGIN, BETWEEN, GAP = 20, 70, 22
NARROWEST: Final = 120
LANE: Final = 10
"""The height that a line takes where it passes a layer."""
SWEEPS: Final = 4


@dataclass(slots=True)
class _Node:
    """A box, or the place where a line passes a layer."""

    box: Box | None
    layer: int
    before: list[str]
    after: list[str]
    x: float = 0
    y: float = 0
    width: float = 0

    @property
    def height(self) -> float:
        if self.box is None:
            return LANE
        rows = len(self.box.facts) + len(self.box.replicas)
        return HEAD + rows * ROW + PAD + (PAD / 2 if self.box.replicas else 0)


def check_svg(path: Path) -> Path:
    """The path, if it is one of an SVG."""
    if path.suffix.lower() != ".svg":
        raise InvalidArgumentError(f"{path}: the drawing is an SVG; give a name that ends in .svg")
    return path


def draw_topology(topology: Topology, path: str | Path) -> Path:
    """Write the drawing of a topology."""
    path = check_svg(Path(path))
    nodes, layers = _nodes(topology)
    _order(nodes, layers)
    width, height = _place(nodes, layers)
    svg = _element(
        None, "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:g} {height:g}"
    )
    svg.set("width", f"{width:g}")
    svg.set("height", f"{height:g}")
    svg.set("font-family", "DejaVu Sans Mono, Menlo, Consolas, monospace")
    svg.set("font-size", "12")
    _element(svg, "title").text = f"topology {topology.name}"
    _element(svg, "rect", width="100%", height="100%", fill=PAPER)
    for node in nodes.values():
        for name in node.before:
            _draw_line(svg, nodes[name], node)
    for node in nodes.values():
        if node.box is not None:
            _draw_box(svg, node, node.box)
    Xml.indent(svg)
    try:
        path.write_text(Xml.tostring(svg, encoding="unicode") + "\n", encoding="utf-8")
    except OSError as error:
        raise HoldfastError(
            f"{path}: cannot be written ({error.strerror}); give another file"
        ) from error
    return path


def _nodes(topology: Topology) -> tuple[dict[str, _Node], list[list[str]]]:
    """Boxes by layers. A line that passes a layer has a node there too, so that no box hides it."""
    boxes = boxes_of(topology)
    layers = topology.layers()
    nodes = {
        name: _Node(boxes[name], at, [], []) for at, layer in enumerate(layers) for name in layer
    }
    for name, box in boxes.items():
        for each in box.inputs:
            last = each
            for at in range(nodes[each].layer + 1, nodes[name].layer):
                # No name has a blank, so these are different from all names.
                lane = f"{each} {at}"
                if lane not in nodes:
                    nodes[lane] = _Node(None, at, [last], [])
                    nodes[last].after.append(lane)
                    layers[at].append(lane)
                last = lane
            nodes[name].before.append(last)
            nodes[last].after.append(name)
    return nodes, layers


def _order(nodes: Mapping[str, _Node], layers: list[list[str]]) -> None:
    """Put what is connected at about the same height, from left to right and back."""
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        way = layers if forth else layers[::-1]
        for fixed, layer in pairwise(way):
            place = {name: at for at, name in enumerate(fixed)}
            middles: dict[str, float] = {}
            for at, name in enumerate(layer):
                near = nodes[name].before if forth else nodes[name].after
                middles[name] = sum(place[each] for each in near) / len(near) if near else at
            layer.sort(key=middles.__getitem__)


def _place(nodes: Mapping[str, _Node], layers: Sequence[Sequence[str]]) -> tuple[float, float]:
    """Give every node its corner; the size of the drawing."""
    heights = [
        sum(nodes[name].height for name in layer) + GAP * (len(layer) - 1) for layer in layers
    ]
    x, tallest = float(MARGIN), max(heights)
    for layer, height in zip(layers, heights, strict=True):
        width = max(_width(box) for name in layer if (box := nodes[name].box))
        y = MARGIN + (tallest - height) / 2
        for name in layer:
            node = nodes[name]
            node.width = width if node.box is None else _width(node.box)
            node.x, node.y = x + (width - node.width) / 2, y
            y += node.height + GAP
        x += width + BETWEEN
    return round(x - BETWEEN + MARGIN, 1), round(tallest + 2 * MARGIN, 1)


def _width(box: Box) -> float:
    return max(box.width * LETTER + 2 * PAD, NARROWEST)


def _draw_line(svg: Xml.Element, start: _Node, end: _Node) -> None:
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    middle = (x1 + x2) / 2
    line = f"M{x1:.1f},{y1:.1f} C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    if end.box is None:
        line += f" H{x2 + end.width:.1f}"
    _element(svg, "path", d=line, fill="none", stroke=LINE, stroke_width="1.6")
    if end.box is not None:
        _element(svg, "path", d=f"M{x2:.1f},{y2:.1f} l-9,-5 v10 z", fill=LINE)


def _draw_box(svg: Xml.Element, node: _Node, box: Box) -> None:
    colour = COLOURS[box.kind]
    group = _element(svg, "g", transform=f"translate({node.x:.1f},{node.y:.1f})")
    size = {"width": f"{node.width:.1f}", "height": f"{node.height:.1f}"}
    _element(group, "rect", rx="6", fill=PAPER, stroke=colour, stroke_width="1.4", **size)
    right = f"{node.width:.1f}"
    _element(
        group,
        "path",
        d=f"M0,{HEAD} V6 Q0,0 6,0 H{node.width - 6:.1f} Q{right},0 {right},6 V{HEAD} Z",
        fill=colour,
    )
    _element(group, "text", x=f"{PAD}", y="17.5", fill=PAPER, font_weight="bold").text = box.name
    y = float(HEAD + ROW)
    for fact in box.facts:
        _element(group, "text", x=f"{PAD}", y=f"{y - 3:g}", fill=GREY).text = fact
        y += ROW
    if box.replicas:
        rule = y - ROW / 2 - 3
        _element(group, "path", d=f"M{PAD},{rule:g} H{node.width - PAD:.1f}", stroke=LINE)
        for replica in box.replicas:
            y += PAD / 2 if replica is box.replicas[0] else 0
            _element(group, "text", x=f"{PAD}", y=f"{y - 3:g}", fill=colour).text = replica
            y += ROW


def _element(parent: Xml.Element | None, tag: str, **attributes: str) -> Xml.Element:
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    return Xml.Element(tag, named) if parent is None else Xml.SubElement(parent, tag, named)
