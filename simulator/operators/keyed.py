"""One window per key on the real core, shared between a stage and its forks until one touches it.

A fork counts itself in at each window. Who is about to change a window that others hold too goes on
with a fork of that window, O(log n); the others keep the window itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.pairs import MemoryPairs, Root
from simulator.operators.running import Tally

AnyAmta = Amta[Any, Any, Any]


class _Silent(Enum):
    SILENT = "silent"


SILENT: Final = _Silent.SILENT
"""The state of a pane without rows: combining with it is no work."""


@dataclass(slots=True)
class Keyed:
    """The window of one key. Its leaves are states."""

    window: AnyAmta
    first: int
    """The pane of its leaf 0, where it has panes."""
    last: int
    """The newest pane with rows."""
    holders: int = 1


class KeyedWindows:
    def __init__(self, monoid: Monoid[Any, Any, Any], tally: Tally) -> None:
        self.lift = monoid.lift
        self.monoid = _over_states(monoid, tally)
        self._source = monoid
        self._tally = tally
        self._keyed: dict[Hashable, Keyed] = {}

    def __len__(self) -> int:
        return len(self._keyed)

    def keys(self) -> set[Hashable]:
        return set(self._keyed)

    def look(self, key: Hashable) -> Keyed | None:
        """The window of a key, not to be changed."""
        return self._keyed.get(key)

    def open(self, key: Hashable, pane: int = 0) -> Keyed:
        """The window of a key, to be changed by this holder; a new one begins with this pane."""
        keyed = self._keyed.get(key)
        if keyed is None:
            keyed = self._keyed[key] = Keyed(Amta(self.monoid), pane, pane)
        elif keyed.holders > 1:
            keyed.holders -= 1
            keyed = self._keyed[key] = Keyed(keyed.window.fork(), keyed.first, keyed.last)
            self._tally.copied += _states_in(keyed.window.root)
        keyed.window.monoid = self.monoid
        return keyed

    def forget(self, key: Hashable) -> None:
        _let_go(self._keyed.pop(key))

    def fork(self, tally: Tally) -> KeyedWindows:
        fork = KeyedWindows(self._source, tally)
        fork._keyed = dict(self._keyed)
        for keyed in self._keyed.values():
            keyed.holders += 1
        return fork

    def copy(self, tally: Tally) -> KeyedWindows:
        copy = KeyedWindows(self._source, tally)
        for key, keyed in self._keyed.items():
            window = _copy_window(keyed.window, copy.monoid, tally)
            copy._keyed[key] = Keyed(window, keyed.first, keyed.last)
        return copy

    def drop(self) -> None:
        for keyed in self._keyed.values():
            _let_go(keyed)
        self._keyed = {}


def _let_go(keyed: Keyed) -> None:
    keyed.holders -= 1
    if not keyed.holders:
        keyed.window.drop()


def _over_states(monoid: Monoid[Any, Any, Any], tally: Tally) -> Monoid[Any, Any, Any]:
    """The monoid over its own states and silence, with its combines counted."""
    combine_states = monoid.combine

    def combine(older: Any, newer: Any) -> Any:
        if older is SILENT:
            return newer
        if newer is SILENT:
            return older
        tally.combines += 1
        return combine_states(older, newer)

    return replace(monoid, lift=_itself, combine=combine, check_order=None)


def _itself(state: Any) -> Any:
    return state


def _states_in(root: Root[Any]) -> int:
    return 2 * len(root.tails) + len(root.stack) + 2


def _copy_window(window: AnyAmta, monoid: Monoid[Any, Any, Any], tally: Tally) -> AnyAmta:
    """A window with the same pairs in the same places, so that its answers are the same."""
    root, pairs = window.root.copy(), MemoryPairs[Any]()
    written = []
    following = root.next
    for level in range(len(root.tails)):
        first, following = root.oldest >> level + 1, following - 1 >> 1
        written += [
            (level, position, window.pairs.read(level, position))
            for position in range(first, following)
        ]
    pairs.write(written, root)
    pairs.release(root.oldest)
    tally.copied += 2 * len(written) + _states_in(root)
    return Amta(monoid, pairs=pairs, root=root)
