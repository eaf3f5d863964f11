"""What a replica asks of its query, in the order it is to be done: the entries of its journal.

The consistency manager decides, `journal` keeps the decision, the gate source hands it to Spark:
rows to the steps, and the order itself to every shard of the stage's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from holdfast.protocol.gates.order import Stretch
from holdfast.wire.chunks import Chunk

__all__ = ["Entry", "Order", "Piece", "work_on"]


class Order(IntEnum):
    """What an entry asks for. Numbers are written to disk."""

    WORK = 1
    """Process the rows, up to `end`."""
    FORK = 2
    """Fork the base."""
    DROP = 3
    """Drop the fork."""
    RESTART = 4
    """Let the base begin anew, empty."""
    INSTALL = 5
    """Make the copy in the folder that `state` names the state of the base."""
    COPY = 6
    """Write the state of the base into the folder that `state` names."""
    RERUN = 7
    """Process the rows up to `end` with a state of their own, which begins empty and is dropped."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one input in one bucket."""

    input: int
    """Which of the stage's inputs."""
    bucket: int
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal; numbers count from 1."""

    number: int
    order: Order
    start: int = 0
    end: int = 0
    tentative: bool = False
    """Whether the fork is to do it."""
    pieces: tuple[Piece, ...] = ()
    """By bucket, then by input."""
    state: bytes = b""


def work_on(
    stretch: Stretch, inputs: Mapping[str, int], size: int, *, tentative: bool = False
) -> Entry:
    """What is asked of the query for a stretch. `inputs`: the number of the input that each of its
    streams is of. `size`: of a bucket."""
    pieces = [
        Piece(number, row.stime // size, row.value)
        for stream, number in inputs.items()
        for row in stretch.rows[stream]
    ]
    pieces.sort(key=lambda piece: (piece.bucket, piece.input))
    return Entry(0, Order.WORK, stretch.start, stretch.end, tentative, tuple(pieces))
