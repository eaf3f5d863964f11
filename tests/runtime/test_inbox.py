"""A neighbour that sends more than the loop can take waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from holdfast.runtime.loop import Clock, Inbox, Loop
from tests.pipeline.sources.rig import wait_for


@contextmanager
def loop_of(name: str) -> Iterator[Loop]:
    loop = Loop(name, Clock(), lambda now: None, lambda: float("inf"))
    loop.start()
    try:
        yield loop
    finally:
        loop.stop()


def test_what_does_not_fit_waits_and_comes_in_order() -> None:
    taken: list[int] = []
    may_go_on = Event()

    def take(number: int) -> None:
        assert may_go_on.wait(60)
        taken.append(number)

    with loop_of("l") as loop:
        inbox = Inbox(loop, most=100)
        put: list[int] = []

        def send() -> None:
            for number in range(20):
                inbox.put(30, lambda now, number=number: take(number))  # type: ignore[misc]
                put.append(number)

        sender = Thread(target=send)
        sender.start()
        wait_for(lambda: len(put) == 3)
        sender.join(0.5)
        assert len(put) == 3
        may_go_on.set()
        sender.join()
        loop.call(lambda now: None)
    assert taken == list(range(20))


def test_a_message_larger_than_all_the_room_comes_through_alone() -> None:
    taken: list[int] = []
    with loop_of("l") as loop:
        inbox = Inbox(loop, most=100)
        for size in (1000, 50, 1000):
            inbox.put(size, lambda now, size=size: taken.append(size))  # type: ignore[misc]
        loop.call(lambda now: None)
    assert taken == [1000, 50, 1000]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_loop_that_has_ended() -> None:
    def fail(now: int) -> None:
        raise ValueError("broken")

    loop = Loop("l", Clock(), lambda now: None, lambda: float("inf"))
    inbox = Inbox(loop, most=100)
    inbox.put(100, fail)
    inbox_is_full = Thread(target=inbox.put, args=(100, fail))
    inbox_is_full.start()
    loop.start()
    inbox_is_full.join(60)
    assert not inbox_is_full.is_alive()
    inbox.put(100, fail)
    inbox.put(100, fail)
