"""The command `holdfast check FILE`."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from holdfast.pipeline.topology.drawing import check_svg, draw_topology, print_topology
from holdfast.pipeline.topology.rules import find_warnings
from holdfast.pipeline.topology.topology import Topology


def check(file: Path, console: Console, svg: Path | None = None) -> Topology:
    """Print the graph of a topology file and what to think of, and draw it as SVG if asked; raises
    `TopologyError`."""
    if svg is not None:
        check_svg(svg)
    topology = Topology.read(file)
    print_topology(topology, console)
    for warning in find_warnings(topology):
        console.print(f"{file}: warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{file}: fine, {_count(len(topology.streams), 'stream')}, "
        f"{_count(len(topology.stages), 'stage')}, {_count(len(topology.sinks), 'sink')}, "
        f"{_count(len(topology.parties()), 'process', 'es')}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    if svg is not None:
        console.print(
            f"picture: {draw_topology(topology, svg)}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    return topology


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word}{'' if number == 1 else plural}"
