"""Window aggregates on the real core: by time with one leaf per slide and key, and by count."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from holdfast.pipeline.machine.tuples import Row
from holdfast.windows import policies
from simulator.diagram import CountWindow, WindowAggregate
from simulator.operators.keyed import SILENT, AnyAmta, KeyedWindows
from simulator.operators.running import Inputs, Outputs, Tally


class RunningAggregate:
    """Keys with nothing left in their window are forgotten, but for those of landmark windows."""

    def __init__(self, described: WindowAggregate, windows: KeyedWindows) -> None:
        self._described = described
        self._windows = windows
        self._panes = None if described.size is None else described.size // described.slide
        self._origin: int | None = None if described.anchored else 0
        """Where pane 0 begins; not known before the first row if the windows are anchored there."""
        self._open: dict[Hashable, Any] = {}
        """The pane that is not over: the states of its keys."""

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        rows, slide = inputs[0], self._described.slide
        answers: list[Row] = []
        if self._origin is None:
            if not rows:
                return (answers,)
            self._origin = rows[0].stime
        taken = 0
        pane = (start - self._origin) // slide
        for over in range(self._origin + (pane + 1) * slide, end + 1, slide):
            taken = self._take(rows, taken, over)
            if self._open or self._windows:
                self._close(pane, over - 1, answers)
            pane += 1
        self._take(rows, taken, end)
        return (answers,)

    def fork(self, tally: Tally) -> RunningAggregate:
        return self._with(self._windows.fork(tally), tally)

    def copy(self, tally: Tally) -> RunningAggregate:
        return self._with(self._windows.copy(tally), tally)

    def drop(self) -> None:
        self._windows.drop()

    def _with(self, windows: KeyedWindows, tally: Tally) -> RunningAggregate:
        other = RunningAggregate(self._described, windows)
        other._origin = self._origin
        other._open = dict(self._open)
        tally.copied += len(self._open)
        return other

    def _take(self, rows: Sequence[Row], taken: int, before: int) -> int:
        """Put the rows up to this time into the open pane; answers how many are taken by now."""
        states, lift, combine = self._open, self._windows.lift, self._windows.monoid.combine
        while taken < len(rows) and rows[taken].stime < before:
            _, key, value = rows[taken]
            state = lift(value)
            states[key] = combine(states[key], state) if key in states else state
            taken += 1
        return taken

    def _close(self, pane: int, stime: int, answers: list[Row]) -> None:
        """The pane is over: let it slide into the windows, and answer for each key."""
        states, self._open = self._open, {}
        for key in sorted(self._windows.keys() | states.keys(), key=ascii):
            state = states.get(key, SILENT)
            window: AnyAmta | None
            if self._panes is None:
                window = self._extend(key, state)
            else:
                window = self._slide(key, pane, pane - self._panes + 1, state)
            if window is not None and self._is_whole(pane):
                answers.append(Row(stime, key, window.result()))

    def _is_whole(self, pane: int) -> bool:
        """Anchored windows begin with the anchor; of others the first ones may have seen less."""
        return not self._described.anchored or self._panes is None or pane >= self._panes - 1

    def _slide(self, key: Hashable, pane: int, oldest: int, state: Any) -> AnyAmta | None:
        """The window of a key from the pane `oldest` on; None if the key has no rows in it."""
        keyed = self._windows.look(key)
        if state is SILENT and keyed is not None and keyed.last < oldest:
            self._windows.forget(key)
            return None
        keyed = self._windows.open(key, pane)
        if state is not SILENT:
            keyed.last = pane
        window = keyed.window
        window.insert(state)
        gone = oldest - keyed.first - window.evicted
        if gone > 0:
            window.evict(gone)
        return window

    def _extend(self, key: Hashable, state: Any) -> AnyAmta:
        """The landmark window of a key, which keeps a single leaf."""
        window = self._windows.open(key).window
        if state is not SILENT:
            window.fold(state)
        return window


class RunningCountWindow:
    def __init__(self, described: CountWindow, windows: KeyedWindows) -> None:
        self._described = described
        self._windows = windows
        self._policy = policies.last(described.rows)

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        answers = []
        for stime, key, value in inputs[0]:
            window = self._windows.open(key).window
            window.insert(self._windows.lift(value))
            window.slide(self._policy)
            answers.append(Row(stime, key, window.result()))
        return (answers,)

    def fork(self, tally: Tally) -> RunningCountWindow:
        return RunningCountWindow(self._described, self._windows.fork(tally))

    def copy(self, tally: Tally) -> RunningCountWindow:
        return RunningCountWindow(self._described, self._windows.copy(tally))

    def drop(self) -> None:
        self._windows.drop()
