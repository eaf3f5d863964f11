"""The picture of one run: what went wrong, what a client saw of it, how late, and who was how."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from holdfast.pictures import check_picture, new_picture, save_picture
from holdfast.protocol.client import Shown
from holdfast.protocol.states import State
from holdfast.sim.faults import Fault, FaultKind
from holdfast.sim.simulation import Simulation
from holdfast.tuples import Kind

__all__ = ["draw_run"]

GREEN, YELLOW, RED, GREY = "#2e7d32", "#f9a825", "#c62828", "#52606d"
FAULT, DOWN = "#ef9a9a", "#9aa5b1"
STATES: Final = {
    State.STABLE: ("#81c784", "STABLE"),
    State.UP_FAILURE: ("#ffd54f", "UP_FAILURE: input is missing"),
    State.STABILIZATION: ("#64b5f6", "STABILIZATION: catching up"),
    State.FAILURE: (DOWN, "down, frozen or without a state"),
}
PIECES: Final = {
    Kind.INSERT: (GREEN, "stable: final"),
    Kind.TENTATIVE: (YELLOW, "tentative: a preview, to be corrected"),
}
MOMENT: Final = 30_000
NAMES: Final = 4
"""At most so many parties are named of a partition."""

Points = Sequence[tuple[float, float]]


def draw_run(run: Simulation, path: str | Path) -> Path:
    """Draw a run that has ended, with the client of the first output, as PNG or SVG."""
    path = check_picture(Path(path))
    scenario = run.scenario
    stream, client = next(iter(run.clients.items()))
    heights = [0.5 + 0.24 * max(1, len(scenario.faults)), 3.2, 2.0, 0.7 + 0.25 * len(run.nodes)]
    figure = new_picture(11, sum(heights) + 1)
    faults, shown, lateness, states = axes = figure.subplots(
        4, 1, sharex=True, gridspec_kw={"height_ratios": heights}
    )
    for axis in axes:
        _shade(axis, scenario.faults)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
        axis.set_axisbelow(True)
    states.set_xlim(0, scenario.until / 1e6)
    states.set_xlabel("seconds since the start", fontsize=9)
    _draw_faults(faults, scenario.faults, scenario.until / 1e6)
    _draw_shown(shown, stream, client.shown)
    _draw_gaps(shown, client.client.gaps)
    shown.legend(loc="upper left", fontsize=8, framealpha=0.9)
    max_delay = next(iter(scenario.settings.values())).delays.max_delay
    _draw_lateness(lateness, client.shown, max_delay / 1e6)
    _draw_states(states, run)
    options = scenario.options
    figure.suptitle(
        f"seed {scenario.seed}, policy {options.policy}, topology {options.topology}, "
        f"faults {options.faults}",
        fontsize=11,
    )
    return save_picture(figure, path)


def _title(axis: Any, text: str) -> None:
    axis.set_title(text, fontsize=10, loc="left")


def _shade(axis: Any, faults: Sequence[Fault]) -> None:
    """Wherever anything is broken, once."""
    shaded = 0
    for fault in sorted(faults, key=lambda fault: fault.start):
        start = max(fault.start, shaded)
        if _end(fault) > start:
            axis.axvspan(start / 1e6, _end(fault) / 1e6, color=RED, alpha=0.07, lw=0)
            shaded = _end(fault)


def _end(fault: Fault) -> int:
    """When it is over: the restart of a stage takes no time."""
    return fault.start + MOMENT if fault.kind is FaultKind.STAGE else fault.end


def _draw_faults(axis: Any, faults: Sequence[Fault], until: float) -> None:
    _title(axis, "what goes wrong")
    axis.set_yticks([])
    axis.set_ylim(max(1, len(faults)) - 0.4, -0.6)
    if not faults:
        axis.text(0.5, 0.5, "nothing", transform=axis.transAxes, ha="center", color=GREY)
    for lane, fault in enumerate(faults):
        start, end = fault.start / 1e6, _end(fault) / 1e6
        axis.barh(lane, end - start, left=start, height=0.75, color=FAULT)
        late = start > until / 2
        place, side = (end - 0.02, "right") if late else (start + 0.02, "left")
        axis.text(place, lane, _name(fault), va="center", ha=side, fontsize=8)


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


def _draw_shown(axis: Any, stream: str, shown: Sequence[tuple[int, Shown]]) -> None:
    _title(axis, f"how far the client of {stream} has been shown the stream, and as what")
    withdrawn, corrected, furthest = [], [], 0.0
    for at, each in shown:
        boundary = each.boundary / 1e6
        if each.kind is Kind.UNDO:
            withdrawn.append((at / 1e6, boundary, furthest))
            furthest = boundary
        elif each.kind is Kind.REC_DONE:
            corrected.append((at / 1e6, boundary))
        else:
            furthest = max(furthest, boundary)
    for kind, (colour, label) in PIECES.items():
        points = [(at / 1e6, each.boundary / 1e6) for at, each in shown if each.kind is kind]
        order = 2.5 if kind is Kind.INSERT else 2
        _draw_points(axis, points, "s", color=colour, ms=3.5, label=label, zorder=order)
    if withdrawn:
        times, ends, starts = zip(*withdrawn, strict=True)
        label = "UNDO: previews are withdrawn"
        axis.vlines(times, ends, starts, color=RED, lw=9, alpha=0.6, zorder=1.5, label=label)
    label = "REC_DONE: all is corrected"
    _draw_points(axis, corrected, "o", color=GREY, ms=9, mfc="none", label=label)
    axis.set_ylabel("event time, s", fontsize=9)


def _draw_gaps(axis: Any, gaps: Sequence[tuple[int, int]]) -> None:
    label: str | None = "given up: never final"
    for start, end in gaps:
        axis.axhspan(
            start / 1e6, end / 1e6, fc="none", ec=GREY, alpha=0.25, hatch="//", label=label
        )
        label = None


def _draw_points(axis: Any, points: Points, marker: str, **style: Any) -> None:
    if points:
        axis.plot(*zip(*points, strict=True), marker, **style)


def _draw_lateness(axis: Any, shown: Sequence[tuple[int, Shown]], max_delay: float) -> None:
    _title(axis, "how long after its end a piece of the stream is first shown")
    late: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in PIECES}
    furthest = 0
    for at, each in shown:
        if each.kind in PIECES and each.boundary > furthest:
            furthest = each.boundary
            late[each.kind].append((at / 1e6, (at - furthest) / 1e6))
    for kind, points in late.items():
        _draw_points(axis, points, "s", color=PIECES[kind][0], ms=3.5)
    latest = max((seconds for points in late.values() for _, seconds in points), default=0)
    if max_delay < math.inf:
        latest = max(latest, max_delay)
        axis.axhline(max_delay, color=GREY, ls="--", lw=1)
        label = "max_delay: no later than this, while there is a way around the faults"
        place = (0.005, max_delay)
        across = axis.get_yaxis_transform()
        axis.annotate(label, place, xycoords=across, va="bottom", fontsize=8, color=GREY)
    axis.set_ylim(0, 1.2 * latest or 1)
    axis.set_ylabel("seconds", fontsize=9)


def _draw_states(axis: Any, run: Simulation) -> None:
    _title(axis, "in which state the replicas are")
    lanes = {name: lane for lane, name in enumerate(run.nodes)}
    for name, lane in lanes.items():
        changes = [(time, state) for time, who, state in run.states if who == name]
        ends = [time for time, _ in changes[1:]] + [run.scenario.until]
        for (start, state), end in zip(changes, ends, strict=True):
            _draw_bar(axis, lane, start, end, STATES[state][0])
    for fault in run.scenario.faults:
        if fault.kind in (FaultKind.CRASH, FaultKind.FREEZE) and fault.targets[0] in lanes:
            _draw_bar(axis, lanes[fault.targets[0]], fault.start, fault.end, DOWN)
    for colour, label in STATES.values():
        axis.barh(0, 0, color=colour, label=label)
    axis.set_yticks(list(lanes.values()), list(lanes))
    axis.set_ylim(len(lanes) - 0.4, -0.6)
    figure = axis.figure
    figure.legend(
        *axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )


def _draw_bar(axis: Any, lane: int, start: int, end: int, colour: str) -> None:
    axis.barh(lane, (end - start) / 1e6, left=start / 1e6, height=0.7, color=colour)
