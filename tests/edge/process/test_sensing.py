"""A sensor's process: events that stay old, a full disk, no standard input."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from harness.edge import EdgeTrial
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.sensor_process import BEHIND, Pace, run_sensor
from holdfast.errors import InvalidArgumentError

STEP = 200_000
MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("speed", "behind", "is_told"),
    [
        (1.0, 10 * MINUTE, True),
        (0.5, 10 * MINUTE, True),
        (1.2, 10 * MINUTE, True),
        (2.0, 10 * MINUTE, False),
        (100.0, 1_440 * MINUTE, False),
        (1.0, BEHIND // 2, False),
    ],
)
def test_events_that_stay_behind_are_told(speed: float, behind: int, is_told: bool) -> None:
    """`speed`: of the times of events, against the clock."""
    pace = Pace()
    found = [
        pace.is_held(now, max(0, behind - int(now * (speed - 1)))) for now in range(0, MINUTE, STEP)
    ]
    assert any(found) is is_told


def test_a_short_delay_is_not_told() -> None:
    pace = Pace()
    for now in range(0, MINUTE, STEP):
        assert not pace.is_held(now, 2 * BEHIND if now % BEHIND < BEHIND // 2 else 0)


def test_a_sensor_without_room_for_its_report_goes_on(tmp_path: Path) -> None:
    queries = {"count": {"aggregate": "count", "size": "200ms"}}
    with EdgeTrial(tmp_path, children=2, sensors=1, rate=200, queries=queries) as trial:
        sensor = trial.fleet.processes["s1"].pid
        resource.prlimit(sensor, resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        before = trial.through()
        # Fails as soon as a process has ended.
        trial.wait_for_window(before + 2_000_000)
        unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
        resource.prlimit(sensor, resource.RLIMIT_FSIZE, unlimited)
        trial.wait(lambda: trial.reports()[0]["newest"] > before + 2_000_000)
        trial.wait_for_window(trial.reports()[0]["newest"])
        trial.check()


def test_a_sensor_without_a_standard_input_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_plant(tmp_path, children=1, sensors=1)
    file.write_text(file.read_text().replace("[sensors.s1]\n", '[sensors.s1]\ninput = "csv"\n'))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidArgumentError, match="no standard input"):
        run_sensor(Layout.read(file), "s1")
