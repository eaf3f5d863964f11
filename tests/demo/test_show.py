"""The demonstration, small: it must show what it says, and say so when something is wrong."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from holdfast.demo import show
from holdfast.demo.crash import Crash
from holdfast.demo.fleet import Fleet
from holdfast.doctor import MachineError
from tests.demo.rig import answer


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(autouse=True)
def _pipeline_is_played(actor, monkeypatch) -> None:
    monkeypatch.setattr(show, "Pipeline", lambda folder: actor)


def test_the_answers_hold_on_spark_and_through_kills(tmp_path, console, actor):
    handler = signal.getsignal(signal.SIGINT)
    show.run(console, tmp_path, sensors=6, minutes=3, updates=2_000, kills=2)
    text = printed(console)
    # A reading every second for 180 s; the watermark is 2 s behind the newest, at 179 s.
    assert "1,080 readings in, 1,062 windows out" in text
    assert "Of a sample of 531 windows, 0 differ from Spark's own." in text
    assert "2 kills; 2,000 answers" in text
    assert "0 differ from an uninterrupted run" in text
    assert "0 differ from those of a run without failures" in text
    assert "6 tentative answers were shown meanwhile, 6 of them are withdrawn" in text
    assert text.rstrip().endswith("The answers hold.")
    for name in ("sensors", "failure"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.html").read_text().count("<svg") == 1
    assert "1,080 readings in" in (tmp_path / "sensors.html").read_text()
    assert "6 tentative answers" in (tmp_path / "failure.html").read_text()
    assert signal.getsignal(signal.SIGINT) is handler
    assert actor.done[-1] == "close"


@pytest.fixture
def _no_fleet(monkeypatch) -> None:
    nothing = pd.DataFrame()
    fleet = Fleet(
        rows=0,
        windows=0,
        seconds=0,
        compared=1,
        different=0,
        hottest=[],
        readings=nothing,
        answers=nothing,
    )
    monkeypatch.setattr(show, "run_fleet", lambda *_: fleet)
    monkeypatch.setattr(show, "draw_sensors", lambda *_: [])
    monkeypatch.setattr(show, "draw_failure", lambda *_: [])
    monkeypatch.setattr(show, "survive_kills", lambda *_: Crash(1, 10, 0, different=0))


@pytest.mark.usefixtures("_no_fleet")
def test_a_wrong_answer_is_not_passed_over(tmp_path, console, monkeypatch):
    monkeypatch.setattr(show, "survive_kills", lambda *_: Crash(1, 10, 0, different=3))
    with pytest.raises(show.DemoError):
        show.run(console, tmp_path)
    assert "3 differ from an uninterrupted run" in printed(console)


@pytest.mark.usefixtures("_no_fleet")
def test_a_wrong_answer_of_the_pipeline_is_not_passed_over(tmp_path, console, actor):
    actor.wrong = [answer(0)]
    with pytest.raises(show.DemoError):
        show.run(console, tmp_path)
    assert "1 differ from those of a run without failures" in printed(console)


def test_ctrl_c_ends_the_pipeline(tmp_path, console, actor, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(show, "run_fleet", interrupt)
    with pytest.raises(KeyboardInterrupt):
        show.run(console, tmp_path)
    assert actor.done == ["start", "close"]


def test_without_java_it_says_what_to_do(tmp_path, console, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="needs Java >=17, found none; install Java 17"):
        show.run(console, tmp_path)
    assert printed(console) == ""


def test_a_folder_that_is_a_file_is_named(tmp_path, console):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(show.DemoError, match=f"{file}: File exists; give --folder"):
        show.run(console, file)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGPIPE])
def test_the_sliding_process_ends_without_a_traceback(tmp_path: Path, ending: signal.Signals):
    command = [sys.executable, "-m", "holdfast.demo.crash", str(tmp_path), "1000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if ending is signal.SIGINT:
            process.send_signal(ending)
        else:
            process.stdout.close()
        assert process.wait(30) == -ending
        assert process.stderr is not None
        assert process.stderr.read() == b""
