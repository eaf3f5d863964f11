"""What a replica remembers to calculate again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.pipeline.machine.commands import Rerun
from holdfast.pipeline.machine.messages import Recalculate
from holdfast.pipeline.process.replica import Reruns
from holdfast.pipeline.stages.entries import Entry, Order, Piece
from holdfast.storage.chunks import Chunk

SIZE = 10


def chunk(value: int) -> Chunk:
    return Chunk.of(pa.table({"value": [value]}))


def work(*buckets: int) -> Entry:
    pieces = tuple(Piece(which, bucket, chunk(bucket)) for bucket in buckets for which in (0, 1))
    return Entry(0, Order.WORK, buckets[0] * SIZE, (buckets[-1] + 1) * SIZE, pieces=pieces)


def asked(bucket: int, attempt: int = 1) -> Rerun:
    return Rerun("sums/1", Recalculate("clean", bucket * SIZE, attempt))


def buckets_of(entry: Entry | None) -> list[int]:
    assert entry is not None
    assert entry.order is Order.RERUN
    return sorted({piece.bucket for piece in entry.pieces})


def test_the_rows_of_one_bucket_are_given_again() -> None:
    reruns = Reruns(SIZE, 0)
    reruns.note(work(3, 4, 5))
    entry = reruns.entry(asked(4))
    assert entry is not None
    assert (entry.start, entry.end) == (40, 50)
    assert [(piece.input, piece.bucket) for piece in entry.pieces] == [(0, 4), (1, 4)]


@pytest.mark.parametrize("span", [25, 30])
def test_so_are_those_that_the_state_depends_on(span: int) -> None:
    reruns = Reruns(SIZE, span)
    for bucket in (3, 4, 5, 6, 8, 9):
        reruns.note(work(bucket))
    assert buckets_of(reruns.entry(asked(6))) == [3, 4, 5, 6]
    assert buckets_of(reruns.entry(asked(9))) == [6, 8, 9]
    assert buckets_of(reruns.entry(asked(7))) == [4, 5, 6]
    # What was before the first of them is not known.
    assert reruns.entry(asked(5)) is None


def test_before_the_beginning_of_a_stream_there_is_nothing() -> None:
    reruns = Reruns(SIZE, 30)
    reruns.note(work(0, 1))
    assert buckets_of(reruns.entry(asked(1))) == [0, 1]


def test_what_is_old_or_not_yet_is_not_known() -> None:
    reruns = Reruns(SIZE, 30)
    for bucket in range(200):
        reruns.note(work(bucket))
    assert reruns.entry(asked(135)) is None
    assert buckets_of(reruns.entry(asked(136))) == [133, 134, 135, 136]
    assert reruns.entry(asked(200)) is None
    reruns.forget()
    assert reruns.entry(asked(199)) is None


def test_what_reaches_too_far_back_is_not_kept() -> None:
    reruns = Reruns(SIZE, 513 * SIZE)
    for bucket in range(600):
        reruns.note(work(bucket))
    assert reruns.entry(asked(599)) is None


def test_one_question_is_asked_once() -> None:
    reruns = Reruns(SIZE, 0)
    reruns.ask(7, asked(4))
    assert reruns.is_asked(asked(4))
    assert not reruns.is_asked(asked(4, attempt=2))
    assert reruns.answered(7) == asked(4)
    assert reruns.answered(7) is None
    assert not reruns.is_asked(asked(4))


def test_not_too_much_is_asked_at_once() -> None:
    reruns = Reruns(SIZE, 0)
    for number in range(64):
        reruns.ask(number, asked(number))
    assert reruns.is_asked(asked(100))
    reruns.answered(0)
    assert not reruns.is_asked(asked(100))
