"""Drivers of sources: how they start, stop and fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.pipeline.sources import open_source
from holdfast.pipeline.topology import Sensors
from tests.pipeline.sources.rig import Taker, alone, running, wait_for


def test_nobody_brings_what_is_pushed(tmp_path: Path) -> None:
    party = Taker()
    with running(alone(tmp_path), party) as driver:
        assert not driver.ended.is_set()
    assert driver.ended.is_set()
    assert (party.rows, driver.failure, driver.counts) == (0, None, {})


def test_a_driver_that_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    driver = open_source(alone(tmp_path), "readings", Taker())
    driver.stop()
    driver.stop()
    assert driver.failure is None


def test_what_ends_a_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    party = Taker()

    def fail(*_: object) -> None:
        raise StoreUnavailableError("the party does not answer")

    monkeypatch.setattr(party, "take", fail)
    with running(alone(tmp_path, Sensors(rows_per_second=1000)), party) as driver:
        wait_for(driver.ended.is_set)
        assert driver.failure == "StoreUnavailableError: the party does not answer"


def test_stopping_does_not_wait_for_room(tmp_path: Path) -> None:
    party = Taker()
    party.full = 10**9
    with running(alone(tmp_path, Sensors(rows_per_second=1000)), party) as driver:
        wait_for(lambda: party.full < 10**9)
    assert (driver.failure, party.rows) == (None, 0)
