"""`merge`: releases a pane when the states of all partitions of a group are in.

It waits for a set of partitions, never for a number of messages: whoever owns a partition now, and
however often its state comes, it counts once. Used by the root and the intermediates of the edge,
who join what it releases.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

__all__ = ["ALL", "Merge"]

ALL: Final = -1
"""The partition of a state that is the join of all partitions already."""

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")


class Merge(Generic[K, S]):
    """By pane `K`, states `S` with a version: of two states of a partition the one of the larger
    version stands, of the same version the first. `weigh`: about how much memory a state takes."""

    def __init__(self, partitions: Iterable[int], weigh: Callable[[S], int] = lambda _: 1) -> None:
        self._partitions = frozenset(partitions)
        self._weigh = weigh
        self.weight = 0
        """Of all states that are held."""
        self._panes: dict[K, dict[int, tuple[int, S]]] = {}

    def __len__(self) -> int:
        return len(self._panes)

    def offer(self, pane: K, partition: int, version: int, state: S) -> bool:
        """Whether it is taken."""
        if partition != ALL and partition not in self._partitions:
            return False
        states = self._panes.setdefault(pane, {})
        if partition in states and states[partition][0] >= version:
            return False
        self._drop(states, partition)
        states[partition] = version, state
        self.weight += self._weigh(state)
        return True

    def _drop(self, states: dict[int, tuple[int, S]], partition: int) -> None:
        if partition in states:
            self.weight -= self._weigh(states.pop(partition)[1])

    def held(self, pane: K) -> tuple[int, ...]:
        """The partitions whose states are in."""
        return tuple(sorted(self._panes.get(pane, ())))

    def is_complete(self, pane: K) -> bool:
        states = self._panes.get(pane, {})
        return ALL in states or states.keys() >= self._partitions

    def release(self, pane: K) -> list[S]:
        """The states of a pane that is complete, always in the order of the partitions, so that
        whoever joins them comes to the same."""
        states = self._panes[pane]
        chosen = [ALL] if ALL in states else sorted(self._partitions)
        return [states[partition][1] for partition in chosen]

    def refuse(self, least: int, concerns: Callable[[K], bool]) -> None:
        """States of an older version do not count any more for these panes."""
        for pane, states in self._panes.items():
            if concerns(pane):
                for partition in [p for p, (version, _) in states.items() if version < least]:
                    self._drop(states, partition)

    def forget(self, concerns: Callable[[K], bool]) -> None:
        """These panes are not needed any more."""
        for pane in [each for each in self._panes if concerns(each)]:
            for _, state in self._panes.pop(pane).values():
                self.weight -= self._weigh(state)
