"""The pipeline of the demonstration, with small scripts in the place of its processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.demo import pipeline as pipeline_module
from holdfast.demo.calculation import SIZE, SLIDE
from holdfast.demo.errors import DemoError
from holdfast.demo.pipeline import CUT_OFF, Pipeline, now
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.process import supervisor
from holdfast.pipeline.sources.simulated import SensorsBringer
from tests.pipeline.sources.rig import wait_for
from tests.transport.parties import threads

GOES_ON = "import time; time.sleep(300)"
ENDS = "print('no room'); raise SystemExit(3)"


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    monkeypatch.setattr(pipeline_module, "EVERY", 0.01)
    monkeypatch.setattr(supervisor, "ANSWER", 0.2)
    monkeypatch.setattr(supervisor, "PAUSES", (0.0,))
    before = set(threads())
    pipeline = Pipeline(tmp_path / "pipeline")
    play(pipeline, GOES_ON)
    try:
        yield pipeline
    finally:
        pipeline.close()
        wait_for(lambda: set(threads()) <= before)


def play(pipeline: Pipeline, script: str, *names: str) -> None:
    for name in names or pipeline.keepers:
        pipeline.keepers[name].command = [sys.executable, "-c", script]


def pids(pipeline: Pipeline) -> list[int]:
    return [each.process.pid for each in pipeline.keepers.values() if each.process is not None]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_readers_reach_the_source_that_is_cut_off_by_links_of_their_own(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path)
    routes = {
        name: [part for part in keeper.command if part.startswith(f"{CUT_OFF}=")]
        for name, keeper in pipeline.keepers.items()
    }
    assert [name for name, given in routes.items() if given] == ["clean/1", "clean/2"]
    assert routes["clean/1"] != routes["clean/2"]
    pipeline.close()


def test_it_leaves_no_process(pipeline: Pipeline) -> None:
    pipeline.start()
    wait_for(lambda: len(pids(pipeline)) == 4)
    started = pids(pipeline)
    handler = signal.getsignal(signal.SIGINT)
    pipeline.close()
    assert not any(map(is_alive, started))
    assert signal.getsignal(signal.SIGINT) is handler


def test_what_is_killed_is_started_again(pipeline: Pipeline) -> None:
    pipeline.start()
    wait_for(lambda: len(pids(pipeline)) == 4)
    pipeline.kill("sums/1")
    wait_for(lambda: pipeline.keepers["sums/1"].starts == 2)
    assert pipeline.keepers["sums/1"].code == -signal.SIGKILL
    pipeline.check()


def test_what_ends_by_itself_again_and_again_is_told_with_its_log(pipeline: Pipeline) -> None:
    play(pipeline, ENDS, "clean/2")
    pipeline.start()
    wait_for(lambda: pipeline.keepers["clean/2"].starts > 2)
    with pytest.raises(DemoError, match=r"clean/2 ends by itself \(3\); the end of .*\n  no room"):
        pipeline.check()


def test_a_source_that_fails_is_told(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(SensorsBringer, "bring", fail)
    pipeline.open_sources()

    def is_told() -> bool:
        try:
            pipeline.check()
        except DemoError as error:
            return "the source north has failed (OSError: no room)" in str(error)
        return False

    wait_for(is_told)


def test_it_is_stable_when_all_replicas_are(pipeline: Pipeline) -> None:
    assert not pipeline.is_stable()
    pipeline.start()
    wait_for(lambda: pipeline.states)
    assert not pipeline.is_stable()
    assert set(pipeline.states[-1][1].values()) == {State.FAILURE}


def test_it_is_ready_when_all_replicas_say_so(pipeline: Pipeline) -> None:
    assert not pipeline.is_ready()
    for keeper in pipeline.keepers.values():
        keeper.status = {"ready": True}
    assert pipeline.is_ready()


def test_what_is_right_is_read_from_the_logs_of_the_sources(pipeline: Pipeline) -> None:
    pipeline.open_sources()
    slide = SLIDE * 1_000_000
    until = (now() // slide + 2) * slide
    wait_for(lambda: now() > until + slide)
    right = pipeline.right_answers(until)
    assert {each.end for each in right} <= {until - slide, until}
    assert {each.sensor for each in right} <= {f"sensor-{number}" for number in range(3)}
    # 60 rows a second of each source; some are too low.
    assert 0 < sum(each.n for each in right if each.end == until) <= 3 * 60 * SIZE
