"""The loop of a party: events in turn, wakes in time, and an end that is seen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.runtime.loop import Clock, Loop
from tests.transport.parties import no_threads_left, wait_for


@contextmanager
def looping(
    wake: Callable[[int], None] = lambda now: None,
    next_wake: Callable[[], float] = lambda: math.inf,
) -> Iterator[Loop]:
    with no_threads_left():
        loop = Loop("test", Clock(), wake, next_wake)
        loop.start()
        yield loop
        loop.stop()


def test_the_clock_is_that_of_the_machine_and_never_goes_back() -> None:
    clock = Clock()
    assert abs(clock() - time.time() * 1e6) < 1e6
    times = [clock() for _ in range(1000)]
    assert times == sorted(times)


def test_events_are_called_in_turn_by_one_thread() -> None:
    heard: list[int] = []
    times: list[int] = []

    def note(number: int) -> Callable[[int], None]:
        def event(now: int) -> None:
            heard.append(number)
            times.append(now)

        return event

    with looping() as loop:
        for number in range(1000):
            loop.post(note(number))
        loop.call(lambda now: None)
        assert heard == list(range(1000))
        assert times == sorted(times)


def test_what_many_threads_post_is_all_called_each_in_its_order() -> None:
    heard: list[tuple[int, int]] = []
    with looping() as loop:

        def post(poster: int) -> None:
            for number in range(200):
                loop.post(lambda now, number=number: heard.append((poster, number)))

        threads = [Thread(target=post, args=(poster,)) for poster in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loop.call(lambda now: None)
    for poster in range(4):
        assert [number for who, number in heard if who == poster] == list(range(200))


def test_it_wakes_when_it_is_time_and_not_before() -> None:
    clock = Clock()
    begin = clock()
    dues = [begin + 20_000 * step for step in range(1, 6)]
    waiting = list(dues)
    woken: list[int] = []

    def wake(now: int) -> None:
        woken.append(now)
        waiting.pop(0)

    with looping(wake, lambda: waiting[0] if waiting else math.inf):
        wait_for(lambda: len(woken) == len(dues))
    assert all(now >= due for now, due in zip(woken, dues, strict=True))


def test_wakes_come_though_events_never_end() -> None:
    woken = Event()
    due = Clock()() + 50_000

    def wake(now: int) -> None:
        woken.set()

    with looping(wake, lambda: math.inf if woken.is_set() else due) as loop:

        def again(now: int) -> None:
            if not woken.is_set():
                loop.post(again)

        loop.post(again)
        assert woken.wait(60)


def test_an_event_may_bring_a_wake_forward() -> None:
    due = [math.inf]
    woken = Event()

    def wake(now: int) -> None:
        due[0] = math.inf
        woken.set()

    def hurry(now: int) -> None:
        due[0] = now

    with looping(wake, lambda: due[0]) as loop:
        assert not woken.is_set()
        loop.post(hurry)
        assert woken.wait(60)


def test_a_call_answers_what_it_was_asked() -> None:
    with looping() as loop:
        assert loop.call(lambda now: now) > 0
        assert loop.call(lambda now: None) is None


def test_an_error_of_ours_goes_to_the_caller_and_the_loop_goes_on() -> None:
    def refuse(now: int) -> None:
        raise InvalidArgumentError("not so")

    with looping() as loop:
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match="not so"):
                loop.call(refuse)
        assert loop.call(lambda now: 7) == 7
        assert loop.failure is None


@pytest.mark.parametrize("how", ["posted", "called", "woken"])
def test_any_other_error_ends_it(how: str) -> None:
    broken = Event()

    def fail(now: int) -> None:
        raise ZeroDivisionError("by mistake")

    def next_wake() -> float:
        return 0 if broken.is_set() else math.inf

    with looping(fail, next_wake) as loop:
        if how == "posted":
            loop.post(fail)
        elif how == "woken":
            broken.set()
            loop.post(lambda now: None)
        else:
            with pytest.raises(StoreUnavailableError, match="does not answer"):
                loop.call(fail)
        assert loop.ended.wait(60)
        assert loop.failure == "ZeroDivisionError: by mistake"
        with pytest.raises(StoreUnavailableError, match="start it again"):
            loop.call(lambda now: 1)


def test_a_call_does_not_wait_for_ever() -> None:
    going_on = Event()
    with looping() as loop:
        loop.post(lambda now: going_on.wait(60) and None)
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            loop.call(lambda now: 1, patience=0.05)
        going_on.set()
        assert loop.call(lambda now: 2) == 2


def test_stopping_finishes_what_was_posted_before() -> None:
    heard: list[int] = []
    with looping() as loop:
        for number in range(100):
            loop.post(lambda now, number=number: heard.append(number))
    assert heard == list(range(100))
    assert loop.failure is None
    assert loop.ended.is_set()
