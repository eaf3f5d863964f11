"""Sensors that were dismissed and go on: what comes too late for its window is counted."""

from __future__ import annotations

import pytest

from tests.edge.machine.rig import Rig


def emit(rig: Rig, sensor: str, times: range) -> int:
    return rig.emit(times, sensor=sensor)


def total(rig: Rig) -> tuple[int, int]:
    """Events in windows, and those that windows call late."""
    counted = sum(window.answer or 0 for window in rig.windows)
    return counted, sum(window.late for window in rig.windows)


@pytest.mark.parametrize("children", [1, 3])
def test_what_a_dismissed_sensor_sends_for_windows_that_are_out_is_called_late(
    children: int,
) -> None:
    rig = Rig(children=children, sensors=2)
    taken = emit(rig, "s0", range(0, 900, 10)) + emit(rig, "s1", range(0, 900, 10))
    # s1 is stopped: it takes events in, and nothing leaves it.
    rig.lose = lambda sender, message, to: "s1" in (sender, to)
    taken += emit(rig, "s1", range(900, 3_500, 10))
    taken += emit(rig, "s0", range(900, 3_500, 10))
    rig.step(500)
    assert rig.windows == []
    rig.do("root", rig.root.dismiss("s1", rig.now))
    rig.step(until=lambda: len(rig.windows) == 3)
    assert [window.complete for window in rig.windows][1:] == [True, True]
    rig.lose = lambda sender, message, to: False
    rig.step(3_000)
    rig.emit([3_600], sensor="s0")
    rig.emit([3_600], sensor="s1")
    rig.advance(20_000)
    rig.step(until=lambda: len(rig.windows) > 8)
    counted, late = total(rig)
    assert counted < taken + 2
    assert counted + late == taken + 2
    refused = sum(rig.child(f"c{at}").intake.refused["s1", "pane closed"] for at in range(children))
    assert refused == late


def test_a_sensor_that_was_dismissed_is_asked_again_for_what_is_missing() -> None:
    rig = Rig(children=1, sensors=2)
    emit(rig, "s0", range(0, 900, 10))
    emit(rig, "s1", range(0, 900, 10))
    rig.do("root", rig.root.dismiss("s1", rig.now))
    rig.step(500)
    # What it sends while nobody waits for it is lost on the way.
    rig.lose = lambda sender, message, to: sender == "s1"
    emit(rig, "s1", range(900, 950, 10))
    rig.lose = lambda sender, message, to: False
    rig.do("s1", rig.sensor("s1")._ask(rig.now))
    assert "s1" in {each.sensor for each in rig.root.groups["g1"].present}
    emit(rig, "s1", range(950, 1_000, 10))
    emit(rig, "s0", range(900, 1_000, 10))
    rig.advance(2_500)
    rig.step(until=lambda: len(rig.windows) > 1)
    assert rig.answers()[0] == 200
