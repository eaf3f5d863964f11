"""The picture of one simulated run, as a time line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.pictures import check_picture, save_picture
from holdfast.pipeline.machine.states import State
from holdfast.time_line import Piece, Span, TimeLine, Trouble, draw_time_line
from simulator.faults import Fault, FaultKind
from simulator.simulation import Simulation

MOMENT: Final = 30_000
NAMES: Final = 4
"""At most so many parties are named of a partition."""


def draw_run(run: Simulation, path: str | Path) -> Path:
    """Draw a run that has ended, with the client of the first output, as PNG or SVG."""
    path = check_picture(Path(path))
    return save_picture(draw_time_line(_time_line(run)), path)


def _time_line(run: Simulation) -> TimeLine:
    scenario, options = run.scenario, run.scenario.options
    stream, client = next(iter(run.clients.items()))
    return TimeLine(
        title=f"seed {scenario.seed}, policy {options.policy}, topology {options.topology}, "
        f"faults {options.faults}",
        until=scenario.until,
        troubles=[Trouble(_name(fault), fault.start, _end(fault)) for fault in scenario.faults],
        stream=stream,
        shown=[Piece(at, each.kind, each.boundary) for at, each in client.shown],
        gaps=client.client.gaps,
        max_delay=next(iter(scenario.settings.values())).delays.max_delay,
        states={name: _spans(run, name) for name in run.nodes},
    )


def _end(fault: Fault) -> int:
    """When it is over: the restart of a stage takes no time."""
    return fault.start + MOMENT if fault.kind is FaultKind.STAGE else fault.end


def _name(fault: Fault) -> str:
    match fault.kind:
        case FaultKind.PARTITION:
            who = ", ".join(fault.targets[:NAMES])
            more = len(fault.targets) - NAMES
            who += f" and {more} more, from all others" if more > 0 else " from all others"
        case FaultKind.ONE_WAY:
            who = " → ".join(fault.targets)
        case _:
            who = " ↔ ".join(fault.targets)
    return f"{fault.kind.value}: {who}"


def _spans(run: Simulation, name: str) -> list[Span]:
    changes = [(time, state) for time, who, state in run.states if who == name]
    ends = [time for time, _ in changes[1:]] + [run.scenario.until]
    spans = [Span(start, end, state) for (start, state), end in zip(changes, ends, strict=True)]
    for fault in run.scenario.faults:
        if fault.kind in (FaultKind.CRASH, FaultKind.FREEZE) and fault.targets[0] == name:
            spans.append(Span(fault.start, fault.end, State.FAILURE))
    return spans
