"""A reader of a stream: what it is told, what is kept for it, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from harness.ports import free_port
from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import WAITING_BYTES, Reader, Told
from tests.pipeline.sources.publisher import Publisher
from tests.pipeline.sources.rig import wait_for
from tests.transport.parties import threads

Said = tuple[Kind, int, list[float] | None]


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with Publisher(f"127.0.0.1:{free_port()}", ["me"]) as publisher:
        yield publisher


@contextmanager
def reading(*publishers: Publisher, **settings: Any) -> Iterator[Reader]:
    addresses = {f"p{at}": str(each.server.address) for at, each in enumerate(publishers)}
    settings = {"me": "me", "heartbeat": 20_000} | settings
    before = set(threads())
    with Reader("readings", addresses, **settings) as reader:
        yield reader
    wait_for(lambda: set(threads()) <= before)


def said(told: Told) -> Said:
    return told.kind, told.boundary, None if told.rows is None else told.rows["value"].to_pylist()


def told(reader: Reader, count: int) -> list[Said]:
    heard = [reader.next(60) for _ in range(count)]
    return [said(each) for each in heard if each is not None]


def test_previews_are_withdrawn_before_the_final_rows_are_told(publisher: Publisher) -> None:
    with reading(publisher) as reader:
        publisher.publish(0, 10, [1.0])
        assert told(reader, 1) == [(Kind.INSERT, 10, [1.0])]
        publisher.preview(10, 20, [2.0, 3.0])
        assert told(reader, 1) == [(Kind.TENTATIVE, 20, [2.0, 3.0])]
        publisher.publish(10, 20, [4.0])
        assert told(reader, 3) == [
            (Kind.UNDO, 10, None),
            (Kind.INSERT, 20, [4.0]),
            (Kind.REC_DONE, 20, None),
        ]
        publisher.publish(20, 30, [])
        assert told(reader, 1) == [(Kind.INSERT, 30, None)]


def test_who_wants_final_rows_only_is_told_nothing_else(publisher: Publisher) -> None:
    with reading(publisher, tentative=False) as reader:
        publisher.preview(0, 10, [2.0, 3.0])
        publisher.publish(0, 10, [4.0])
        publisher.publish(10, 20, [5.0])
        assert told(reader, 2) == [(Kind.INSERT, 10, [4.0]), (Kind.INSERT, 20, [5.0])]


def test_a_reader_goes_on_from_its_position(publisher: Publisher) -> None:
    for start in range(0, 50, 10):
        publisher.publish(start, start + 10, [start])
    with reading(publisher, position=30) as reader:
        assert [boundary for _, boundary, _ in told(reader, 2)] == [40, 50]


def test_many_segments_come_in_order(publisher: Publisher) -> None:
    for start in range(300):
        publisher.publish(start, start + 1, [start])
    with reading(publisher) as reader:
        assert [values for *_, values in told(reader, 300)] == [[n] for n in range(300)]


def test_segments_come_at_once_however_rare_heartbeats_are(publisher: Publisher) -> None:
    for start in range(500):
        publisher.publish(start, start + 1, [start])
    with reading(publisher, heartbeat=60_000_000) as reader:
        heard = [reader.next(30) for _ in range(500)]
        assert None not in heard, "it waited for a heartbeat"
        for start in range(500, 1000):
            publisher.publish(start, start + 1, [start])
        heard += [reader.next(30) for _ in range(500)]
    assert [said(each)[2] for each in heard if each is not None] == [[n] for n in range(1000)]


def test_what_is_not_acknowledged_is_kept(publisher: Publisher) -> None:
    for start in range(0, 50, 10):
        publisher.publish(start, start + 10, [start])
    with reading(publisher, acknowledges=True) as reader:
        assert len(told(reader, 5)) == 5
        reader.acknowledge(20)
        wait_for(lambda: publisher.kept_from == 20)
    with reading(publisher, acknowledges=True, position=20) as reader:
        assert [boundary for _, boundary, _ in told(reader, 3)] == [30, 40, 50]
        assert publisher.kept_from == 20


def test_who_does_not_acknowledge_has_taken_what_it_was_told(publisher: Publisher) -> None:
    publisher.publish(0, 10, [1.0])
    with reading(publisher) as reader:
        told(reader, 1)
        wait_for(lambda: publisher.kept_from == 10)


def test_what_is_not_kept_is_a_gap(publisher: Publisher) -> None:
    publisher.publish(0, 10, [1.0])
    with reading(publisher) as reader:
        told(reader, 1)
        wait_for(lambda: publisher.kept_from == 10)
    publisher.publish(10, 20, [2.0])
    with reading(publisher, me="somebody", may_skip=True) as reader:
        assert told(reader, 1) == [(Kind.INSERT, 20, [2.0])]
        assert reader.gaps == [(0, 10)]


def test_a_reader_switches_to_another_publisher(publisher: Publisher) -> None:
    with (
        Publisher(f"127.0.0.1:{free_port()}", ["me"]) as other,
        reading(publisher, other) as reader,
    ):
        for each in (publisher, other):
            each.publish(0, 10, [1.0])
        assert told(reader, 1) == [(Kind.INSERT, 10, [1.0])]
        # Whichever it reached first.
        publishers = {"p0": publisher, "p1": other}
        publishers.pop(str(reader.publisher)).server.close()
        [(name, left)] = publishers.items()
        left.publish(10, 20, [2.0])
        assert told(reader, 1) == [(Kind.INSERT, 20, [2.0])]
        assert reader.is_connected
        assert reader.publisher == name


def test_waiting_ends_in_time_and_when_the_reader_is_closed(publisher: Publisher) -> None:
    with reading(publisher) as reader:
        assert reader.next(0) is None
        assert reader.next(0.05) is None
        heard: list[Told] = []
        waiting = Thread(target=lambda: heard.extend(reader))
        waiting.start()
        reader.close()
        waiting.join(60)
        assert not waiting.is_alive()
    assert heard == []


def test_a_reader_that_has_failed_says_so(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(publisher) as reader:

        def fail(*_: object) -> None:
            raise ZeroDivisionError("by mistake")

        monkeypatch.setattr(reader._client, "receive", fail)
        with pytest.raises(StoreUnavailableError, match="by mistake"):
            list(reader)


def test_what_waits_for_the_application_is_bounded_in_bytes(publisher: Publisher) -> None:
    values = [float(n) for n in range(1 << 19)]
    count = 40
    for start in range(count):
        publisher.publish(start, start + 1, values)
    with reading(publisher) as reader:
        first = reader.next(60)
        assert first is not None
        assert first.rows is not None
        size = first.rows.nbytes
        assert count * size > 2 * WAITING_BYTES
        wait_for(lambda: reader._told_bytes >= WAITING_BYTES, 60)
        assert reader._told_bytes <= WAITING_BYTES + size
        boundaries = [reader.next(60) for _ in range(count - 1)]
        assert [each.boundary for each in boundaries if each is not None] == list(
            range(2, count + 1)
        )
        assert reader._told_bytes == 0
