"""What works beside a party's protocol: how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event

import pytest

from holdfast.pipeline.process.source import Driver, StoppedError
from tests.transport.parties import no_threads_left, wait_for


class Road:
    """A way that leads nowhere."""

    def __init__(self) -> None:
        self.stopping = Event()
        self.counts: Counter[str] = Counter()


def wait(road: Road) -> None:
    road.counts["begun"] += 1
    road.stopping.wait()


def leave(road: Road) -> None:
    road.stopping.wait()
    raise StoppedError


@pytest.mark.parametrize("work", [wait, leave])
def test_it_ends_when_it_is_stopped(work: Callable[[Road], None]) -> None:
    with no_threads_left():
        driver = Driver("source", "readings", Road(), work)
        driver.start()
        assert not driver.ended.is_set()
        driver.stop()
        driver.stop()
        assert driver.ended.is_set()
        assert driver.failure is None


def test_it_ends_when_there_is_no_more_to_do() -> None:
    driver = Driver("source", "readings", Road(), lambda road: road.counts.update(rows=3))
    driver.start()
    wait_for(driver.ended.is_set)
    assert (driver.failure, driver.counts) == (None, {"rows": 3})
    driver.stop()


def test_what_ends_it_otherwise_is_told() -> None:
    def fail(road: Road) -> None:
        raise OSError("no disk")

    driver = Driver("sink", "archive", Road(), fail)
    driver.start()
    wait_for(driver.ended.is_set)
    assert driver.failure == "OSError: no disk"
    driver.stop()


def test_one_that_was_never_started_can_be_stopped() -> None:
    driver = Driver("sink", "archive", Road(), wait)
    driver.stop()
    assert driver.counts == {}
