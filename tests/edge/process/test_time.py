"""Clocks that are wrong, input that is old, silent or over, and nodes that do not come.

All of them are processes. Machines with other clocks are processes whose `time` module is ahead or
behind.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from harness.edge import StagedTrial, open_input, write

SECOND = 1_000_000


def test_files_with_the_times_of_yesterday(tmp_path: Path) -> None:
    """Two of them, so that neither may run ahead before the other is there."""
    inputs = {"s1": 'input = "csv"', "s2": 'input = "jsonl"\nlateness = "200ms"'}
    start = (int(time.time()) - 86_400) // 10 * 10
    with StagedTrial(tmp_path, inputs, children=2) as plant:
        plant.fleet.start("root", "c1", "c2")
        with open_input(plant.start("s1")) as csv:
            csv.write(b"time,value\n")
            csv.writelines(f"{start + at / 10},{at}\n".encode() for at in range(30))
        times = [start + 0.5 + at / 10 for at in range(20)]
        times[3], times[4] = times[4], times[3]
        with open_input(plant.start("s2")) as lines:
            write(lines, *({"time": each, "value": 1} for each in times))
        ended = [plant.fleet.processes.pop(name).wait(60) for name in ("s1", "s2")]
        assert ended == [0, 0], plant.said("s1") + plant.said("s2")
        windows = plant.wait(lambda: len(plant.windows()) >= 3 and plant.windows())
    assert [window["start"] for window in windows] == [(start + at) * SECOND for at in range(3)]
    assert [window["answer"] for window in windows] == [15, 20, 15]
    assert all(window["complete"] and not window["late"] for window in windows)
    assert plant.report("s2")["late"] == 0


def test_windows_go_on_without_a_sensor_that_is_silent_or_over(tmp_path: Path) -> None:
    inputs = {"s1": "rate = 200", "s2": 'input = "jsonl"\nidle = "300ms"', "s3": 'input = "csv"'}
    with StagedTrial(tmp_path, inputs, children=2) as plant:
        plant.fleet.start("root", "c1", "c2", "s1")
        silent, over = plant.start("s2"), plant.start("s3")
        with open_input(silent) as lines:
            with open_input(over) as csv:
                csv.write(b"value\n1\n2\n3\n")
            write(lines, {"value": 1})
            assert plant.fleet.processes.pop("s3").wait(60) == 0
            assert sorted(plant.sensors()) == ["s1", "s2"]
            end = plant.through() + 4 * SECOND
            plant.wait_for_window(end, 60)
            windows = plant.windows()
            assert windows[-1]["at"] - windows[-1]["end"] < 3 * SECOND
            write(lines, {"value": 1})
            plant.wait(lambda: plant.report("s2")["taken"] == 2)
        assert plant.fleet.processes.pop("s2").wait(60) == 0
        plant.wait(lambda: plant.sensors() == ["s1"])
        plant.wait_for_window(plant.through() + SECOND, 60)
        assert all(window["complete"] for window in plant.windows())


def test_what_waits_in_the_pipe_while_a_sensor_joins_counts(tmp_path: Path) -> None:
    inputs = {"s1": 'input = "jsonl"'}
    with StagedTrial(tmp_path, inputs, children=1) as plant:
        process = plant.start("s1")
        begin = time.time()
        with open_input(process) as lines:
            write(lines, *({"time": begin + at / 100, "value": 1} for at in range(50)))
            plant.fleet.start("root", "c1")
            write(lines, *({"time": begin + 0.5 + at / 100, "value": 1} for at in range(50)))
        assert plant.fleet.processes.pop("s1").wait(60) == 0, plant.said("s1")
        last = int((begin + 0.99) * SECOND)
        plant.wait(lambda: plant.through() > last)
        windows = plant.windows()
    assert sum(window["answer"] or 0 for window in windows) == 100
    assert plant.report("s1")["late"] == 0


@pytest.mark.parametrize("ahead", [600, -600])
def test_a_sensor_with_a_wrong_clock_gets_the_time_of_the_root(tmp_path: Path, ahead: int) -> None:
    inputs = {"s1": "rate = 100", "s2": "rate = 100"}
    with StagedTrial(tmp_path, inputs, children=2, settings={"gather": "1m"}) as plant:
        plant.start("s1", ahead=ahead)
        plant.fleet.start("root", "c1", "c2", "s2")
        plant.wait(lambda: any(each["answer"] == 200 for each in plant.windows()), 60)
        assert abs(plant.through() / 1e6 - time.time()) < 30
        plant.report("s1")
        plant.report("s2")
        assert all(window["complete"] for window in plant.check())
        side = "ahead of" if ahead > 0 else "behind"
        assert re.search(rf"the clock is (59|60)\d\.\d s {side} the root's", plant.said("s1"))
        # As sure as the answer was fast.
        assert abs(plant.report("s1")["ahead"] - ahead * SECOND) < 10 * SECOND


def test_events_of_the_future_are_refused_and_said(tmp_path: Path) -> None:
    """And those of the others, and the later ones of that sensor, are not."""
    inputs = {"s1": 'input = "jsonl"\nidle = "200ms"', "s2": "rate = 100"}
    with StagedTrial(tmp_path, inputs, children=2) as plant:
        plant.fleet.start("root", "c1", "c2")
        with open_input(plant.start("s1")) as lines:
            write(lines, {"time": time.time() + 600, "value": 1})
            plant.fleet.start("s2")
            plant.wait(lambda: len(plant.windows()) >= 2, 60)
            write(lines, {"time": time.time(), "value": 1})
            plant.wait(lambda: plant.report("s1")["taken"] == 1)
        report = plant.report("s1")
        assert (report["early"], report["late"]) == (1, 0)
        assert "s1: 1 events refused: they are further ahead of the root's clock" in plant.said(
            "s1"
        )
        refused = [plant.status(name)["refused"] for name in ("c1", "c2")]
        reason = "at the sensor: too old, or ahead of the root's clock"
        assert sorted(refused, key=len) == [{}, {"s1": {reason: 1}}]


def test_a_child_whose_clock_was_set_back_is_taken_in_again(tmp_path: Path) -> None:
    with StagedTrial(tmp_path, {"s1": "rate = 100"}, children=3) as plant:
        plant.fleet.start("root", "c1", "c2", "c3", "s1")
        plant.wait(lambda: len(plant.windows()) >= 1, 60)
        plant.fleet.kill("c1")
        plant.start("c1", ahead=-600)
        plant.wait(lambda: plant.status("c1").get("owned") == [0], 60)
        assert plant.status("c2")["down"] == plant.status("c3")["down"] == []
        plant.wait_for_window(plant.through() + 2 * SECOND)
        plant.check()


def test_a_group_begins_without_a_child_that_does_not_come(tmp_path: Path) -> None:
    settings = {"gather": "2s"}
    with StagedTrial(tmp_path, {"s1": "rate = 100"}, children=3, settings=settings) as plant:
        plant.fleet.start("root")
        plant.wait(lambda: plant.status("root")["awaits"] == {"edge": ["c1", "c2", "c3"]})
        plant.fleet.start("c1", "c2", "s1")
        plant.wait(lambda: plant.status("root")["awaits"] == {"edge": ["c3"]})
        plant.wait(lambda: len(plant.windows()) >= 2, 60)
        assert "edge: no window yet, awaits c3" in plant.said("root")
        assert plant.status("root")["awaits"] == {}
        plant.fleet.start("c3")
        plant.wait(lambda: plant.status("c3").get("owned") == [2], 60)
        plant.check()
