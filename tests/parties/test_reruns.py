"""What a replica remembers to calculate again."""

from __future__ import annotations

import pyarrow as pa

from holdfast.parties.reruns import Reruns
from holdfast.protocol.commands import Rerun
from holdfast.protocol.messages import Recalculate
from holdfast.spark.stages.entries import Entry, Order, Piece
from holdfast.wire import Chunk

SIZE = 10


def chunk(value: int) -> Chunk:
    return Chunk.of(pa.table({"value": [value]}))


def work(*buckets: int) -> Entry:
    pieces = tuple(Piece(which, bucket, chunk(bucket)) for bucket in buckets for which in (0, 1))
    return Entry(0, Order.WORK, buckets[0] * SIZE, (buckets[-1] + 1) * SIZE, pieces=pieces)


def asked(bucket: int, attempt: int = 1) -> Rerun:
    return Rerun("sums/1", Recalculate("clean", bucket * SIZE, attempt))


def test_the_rows_of_one_bucket_are_given_again() -> None:
    reruns = Reruns(SIZE)
    reruns.note(work(3, 4, 5))
    entry = reruns.entry(asked(4))
    assert entry is not None
    assert (entry.order, entry.start, entry.end) == (Order.RERUN, 40, 50)
    assert [(piece.input, piece.bucket) for piece in entry.pieces] == [(0, 4), (1, 4)]


def test_what_is_old_or_was_never_there_is_not_known() -> None:
    reruns = Reruns(SIZE)
    for bucket in range(200):
        reruns.note(work(bucket))
    assert reruns.entry(asked(10)) is None
    assert reruns.entry(asked(300)) is None
    assert reruns.entry(asked(199)) is not None
    reruns.forget()
    assert reruns.entry(asked(199)) is None


def test_one_question_is_asked_once() -> None:
    reruns = Reruns(SIZE)
    reruns.ask(7, asked(4))
    assert reruns.is_asked(asked(4))
    assert not reruns.is_asked(asked(4, attempt=2))
    assert reruns.answered(7) == asked(4)
    assert reruns.answered(7) is None
    assert not reruns.is_asked(asked(4))


def test_not_too_much_is_asked_at_once() -> None:
    reruns = Reruns(SIZE)
    for number in range(64):
        reruns.ask(number, asked(number))
    assert reruns.is_asked(asked(100))
    reruns.answered(0)
    assert not reruns.is_asked(asked(100))
