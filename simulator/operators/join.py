"""The join of two streams that come by time (SJoin).

What it has seen lies in one piece per bucket. A piece never changes once its bucket is over, so a
fork shares them all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import repeat

from holdfast.pipeline.machine.tuples import Row
from simulator.diagram import OrderedJoin
from simulator.operators.running import Inputs, Outputs, Tally

LEFT, RIGHT = 0, 1

Side = dict[Hashable, list[Row]]


@dataclass(slots=True)
class _Piece:
    """The rows of one bucket that may still find a partner: left ones and right ones, by key."""

    end: int
    sides: tuple[Side, Side] = field(default_factory=lambda: ({}, {}))


class RunningJoin:
    def __init__(self, described: OrderedJoin) -> None:
        self._described = described
        self._pieces: tuple[_Piece, ...] = ()

    def run(self, start: int, end: int, inputs: Inputs) -> Outputs:
        left, right = inputs
        window, by_key = self._described.window, self._described.match is None
        pairs: list[Row] = []
        if left or right:
            piece = _Piece(end)
            pieces = (*self._pieces, piece)
            for side, row in _by_time(left, right):
                key = row.key if by_key else None
                self._pair(side, row, key, pieces, pairs)
                piece.sides[side].setdefault(key, []).append(row)
            self._pieces = pieces
        if self._pieces and self._pieces[0].end <= end - window:
            self._pieces = tuple(p for p in self._pieces if p.end > end - window)
        return (pairs,)

    def fork(self, tally: Tally) -> RunningJoin:
        fork = RunningJoin(self._described)
        fork._pieces = self._pieces
        return fork

    def copy(self, tally: Tally) -> RunningJoin:
        copy = RunningJoin(self._described)
        copy._pieces = tuple(
            _Piece(
                piece.end, (_copied(piece.sides[LEFT], tally), _copied(piece.sides[RIGHT], tally))
            )
            for piece in self._pieces
        )
        return copy

    def drop(self) -> None:
        self._pieces = ()

    def _pair(
        self, side: int, row: Row, key: Hashable, pieces: tuple[_Piece, ...], pairs: list[Row]
    ) -> None:
        """Pair a row with those of the other side that came before it, oldest first."""
        match, oldest = self._described.match, row.stime - self._described.window
        for piece in pieces:
            for other in piece.sides[1 - side].get(key, ()):
                if other.stime < oldest:
                    continue
                left, right = (row, other) if side == LEFT else (other, row)
                if match is None or match(left, right):
                    pairs.append(Row(row.stime, left.key, (left.value, right.value)))


def _by_time(left: Sequence[Row], right: Sequence[Row]) -> Iterator[tuple[int, Row]]:
    return merge(zip(repeat(LEFT), left), zip(repeat(RIGHT), right), key=lambda pair: pair[1].stime)


def _copied(side: Side, tally: Tally) -> Side:
    copy = {key: list(rows) for key, rows in side.items()}
    tally.copied += sum(map(len, copy.values()))
    return copy
