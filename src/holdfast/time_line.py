"""The time line of a run: what went wrong, what a client saw of it, how late, and who was how.

Drawn of simulated runs (`campaign.picture`) and of real ones (`demo.picture`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.figure import Figure

from holdfast.pictures import new_picture
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind

__all__ = ["Piece", "Span", "TimeLine", "Trouble", "draw_time_line"]

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

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is broken for a while."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What a client is shown: a piece of the stream, or a word about it."""

    at: int
    kind: Kind
    boundary: int
    """Of rows: where the piece ends. Of an UNDO: what is before this stands."""


@dataclass(frozen=True, slots=True)
class Span:
    """How long a replica is in one state."""

    start: int
    end: int
    state: State


@dataclass(frozen=True, slots=True)
class TimeLine:
    """A run that has ended. All times, those of the stream too, in microseconds since its start."""

    title: str
    until: int
    troubles: Sequence[Trouble]
    stream: str
    shown: Sequence[Piece]
    gaps: Sequence[tuple[int, int]]
    """Pieces of the stream that the client never gets."""
    max_delay: float
    states: Mapping[str, Sequence[Span]]
    """Of each replica; later ones are drawn over earlier ones."""

    def delays(self) -> Iterator[tuple[Piece, int]]:
        """Pieces of which something is shown for the first time, and how long after their end."""
        furthest = 0
        for piece in self.shown:
            if piece.kind in PIECES and piece.boundary > furthest:
                furthest = piece.boundary
                yield piece, piece.at - furthest


def draw_time_line(line: TimeLine) -> Figure:
    """A figure to be saved."""
    heights = [0.5 + 0.24 * max(1, len(line.troubles)), 3.2, 2.0, 0.7 + 0.25 * len(line.states)]
    figure = new_picture(11, sum(heights) + 1)
    troubles, shown, lateness, states = axes = figure.subplots(
        4, 1, sharex=True, gridspec_kw={"height_ratios": heights}
    )
    for axis in axes:
        _shade(axis, line.troubles)
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
        axis.set_axisbelow(True)
    states.set_xlim(0, line.until / 1e6)
    states.set_xlabel("seconds since the start", fontsize=9)
    _draw_troubles(troubles, line.troubles, line.until / 1e6)
    _draw_shown(shown, line.stream, line.shown)
    _draw_gaps(shown, line.gaps)
    shown.legend(loc="upper left", fontsize=8, framealpha=0.9)
    _draw_lateness(lateness, line)
    _draw_states(states, line.states)
    figure.suptitle(line.title, fontsize=11)
    return figure


def _title(axis: Any, text: str) -> None:
    axis.set_title(text, fontsize=10, loc="left")


def _shade(axis: Any, troubles: Sequence[Trouble]) -> None:
    """Wherever anything is broken, once."""
    shaded = 0
    for trouble in sorted(troubles, key=lambda trouble: trouble.start):
        start = max(trouble.start, shaded)
        if trouble.end > start:
            axis.axvspan(start / 1e6, trouble.end / 1e6, color=RED, alpha=0.07, lw=0)
            shaded = trouble.end


def _draw_troubles(axis: Any, troubles: Sequence[Trouble], until: float) -> None:
    _title(axis, "what goes wrong")
    axis.set_yticks([])
    axis.set_ylim(max(1, len(troubles)) - 0.4, -0.6)
    if not troubles:
        axis.text(0.5, 0.5, "nothing", transform=axis.transAxes, ha="center", color=GREY)
    for lane, trouble in enumerate(troubles):
        start, end = trouble.start / 1e6, trouble.end / 1e6
        axis.barh(lane, end - start, left=start, height=0.75, color=FAULT)
        late = start > until / 2
        place, side = (end - 0.02, "right") if late else (start + 0.02, "left")
        axis.text(place, lane, trouble.name, va="center", ha=side, fontsize=8)


def _draw_shown(axis: Any, stream: str, shown: Sequence[Piece]) -> None:
    _title(axis, f"how far the client of {stream} has been shown the stream, and as what")
    withdrawn, corrected, furthest = [], [], 0.0
    for each in shown:
        boundary = each.boundary / 1e6
        if each.kind is Kind.UNDO:
            withdrawn.append((each.at / 1e6, boundary, furthest))
            furthest = boundary
        elif each.kind is Kind.REC_DONE:
            corrected.append((each.at / 1e6, boundary))
        else:
            furthest = max(furthest, boundary)
    for kind, (colour, label) in PIECES.items():
        points = [(each.at / 1e6, each.boundary / 1e6) for each in shown if each.kind is kind]
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


def _draw_lateness(axis: Any, line: TimeLine) -> None:
    _title(axis, "how long after its end a piece of the stream is first shown")
    late: dict[Kind, list[tuple[float, float]]] = {kind: [] for kind in PIECES}
    for piece, delay in line.delays():
        late[piece.kind].append((piece.at / 1e6, delay / 1e6))
    max_delay = line.max_delay / 1e6
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


def _draw_states(axis: Any, states: Mapping[str, Sequence[Span]]) -> None:
    _title(axis, "in which state the replicas are")
    for lane, spans in enumerate(states.values()):
        for span in spans:
            length = (span.end - span.start) / 1e6
            colour, _ = STATES[span.state]
            axis.barh(lane, length, left=span.start / 1e6, height=0.7, color=colour)
    for colour, label in STATES.values():
        axis.barh(0, 0, color=colour, label=label)
    axis.set_yticks(range(len(states)), list(states))
    axis.set_ylim(len(states) - 0.4, -0.6)
    figure = axis.figure
    figure.legend(
        *axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )
