"""The demonstration, small: it must show what it says, and say so when something is wrong."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from rich.console import Console

from holdfast.demo import show
from holdfast.demo.crash import Crash
from holdfast.demo.fleet import Fleet


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_answers_hold_on_spark_and_through_kills(tmp_path, console):
    show.run(console, tmp_path, sensors=6, seconds=700, updates=2_000, kills=2)
    text = printed(console)
    # 6 sensors, a reading every 2 of 700 seconds; windows end at 10, 20 ... 1290.
    assert "2,100 readings in, 774 windows out" in text
    assert "gave 774, of which 0 differ" in text
    assert "2 kills; 2,000 answers" in text
    assert "0 differ from an uninterrupted run" in text
    assert text.rstrip().endswith("The answers hold.")
    assert (tmp_path / "sensors.png").read_bytes().startswith(b"\x89PNG")


def test_a_wrong_answer_is_not_passed_over(tmp_path, console, monkeypatch):
    nothing = pd.DataFrame()
    fleet = Fleet(
        rows=0,
        windows=0,
        spark_windows=0,
        different=0,
        hottest=[],
        readings=nothing,
        answers=nothing,
    )
    monkeypatch.setattr(show, "run_fleet", lambda *_: fleet)
    monkeypatch.setattr(show, "draw_sensors", lambda _fleet, path: path)
    monkeypatch.setattr(show, "survive_kills", lambda *_: Crash(1, 10, 0, different=3))
    with pytest.raises(show.DemoError):
        show.run(console, tmp_path)
    assert "3 differ from an uninterrupted run" in printed(console)
