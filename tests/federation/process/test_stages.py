"""Stages as tasks, with replicas that only say how they are; tests/live has real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_for
from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.federation.machine import Load
from holdfast.federation.process import stages
from holdfast.federation.process.settings import Participant
from holdfast.federation.process.stages import BEHIND, Event, StageTasks

SPAN = 2_000_000
NOW = 1_700_000_000 * 1_000_000
EPOCH = (1,)

TOPOLOGY = """
name = "grid"
bucket = "2s"
[streams.meters]
source = "push"
address = "127.0.0.1:7001"
schema = { sensor = "string", value = "bigint" }
[stages.clean]
inputs = ["meters"]
replicas = ["127.0.0.1:7002", "127.0.0.1:7003"]
max_delay = "8s"
steps = [{ where = "value > 0" }]
[sinks.client]
stream = "clean"
sink = "console"
"""
PARTICIPANT = """
address = "127.0.0.1:7501"
key = "north.key"
topology = "grid.toml"
rows_per_second = 100
[tasks.clean]
replica = "clean/1"
"""


class FakeProcess:
    """Runs until it is asked to end."""

    def __init__(self) -> None:
        self.asked = False

    def poll(self) -> int | None:
        return 0 if self.asked else None

    def terminate(self) -> None:
        self.asked = True

    def wait(self, timeout: float | None = None) -> int:
        return 0


class Machine:
    """What replicas say, and how often one was started."""

    def __init__(self) -> None:
        self.said: dict[str, Any] | None = None
        self.starts = 0

    def start(self, *args: object, **kwargs: object) -> FakeProcess:
        self.starts += 1
        return FakeProcess()

    def answer(self, *args: object, **kwargs: object) -> bytes:
        if self.said is None:
            raise HoldfastError("nobody is there")
        return json.dumps(self.said).encode()

    def say(self, bucket: int, *, lag: float = 2.0, state: str = "STABLE") -> None:
        self.said = {
            "ready": True,
            "state": state,
            "boundary": NOW + bucket * SPAN,
            "lag_seconds": lag,
            "input_rows": 100 * bucket,
        }


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(stages, "LOOK", 0.01)
    monkeypatch.setattr(stages, "act", machine.answer)
    monkeypatch.setattr("holdfast.pipeline.process.supervisor.subprocess.Popen", machine.start)
    return machine


@pytest.fixture
def tasks(machine: Machine, tmp_path: Path) -> Iterator[StageTasks]:
    (tmp_path / "grid.toml").write_text(TOPOLOGY)
    file = tmp_path / "north.toml"
    file.write_text(PARTICIPANT)
    tasks = StageTasks(Participant.read(file))
    yield tasks
    tasks.close()


def process(tasks: StageTasks) -> FakeProcess | None:
    found: Any = tasks._stages["clean"].keeper.process
    assert found is None or isinstance(found, FakeProcess)
    return found


def has_looked(tasks: StageTasks, bucket: int) -> bool:
    """Whether it is known that the replica has come so far."""
    return tasks._stages["clean"].boundary == NOW + bucket * SPAN


def test_a_stage_is_ready_when_it_is_stable_and_near(machine: Machine, tasks: StageTasks) -> None:
    told: list[Event] = []
    tasks.prepare("clean", EPOCH, "south", told.append)
    wait_for("it to be started", lambda: machine.starts == 1, 60)
    for bucket, lag, state in ((1, 60.0, "STABLE"), (2, 2.0, "STABILIZATION")):
        machine.say(bucket, lag=lag, state=state)
        wait_for("a look", partial(has_looked, tasks, bucket), 60)
        assert (told, tasks.loads()) == ([], {})
    machine.say(3)
    wait_for("it to be ready", lambda: len(told) == 1, 60)
    tasks.start("clean", EPOCH, 3, told.append)
    machine.say(5)
    wait_for("its load: 100 rows in a bucket", lambda: tasks.loads() == {"clean": Load(0.5)}, 60)


def test_one_that_has_gone_runs_on_until_the_other_is_as_far(
    machine: Machine, tasks: StageTasks
) -> None:
    tasks.start("clean", EPOCH, 0, lambda event: None)
    machine.say(1)
    wait_for("it to run", lambda: has_looked(tasks, 1), 60)
    running = process(tasks)
    assert running is not None
    tasks.stop("clean", EPOCH)
    machine.say(BEHIND)
    wait_for("a look", lambda: has_looked(tasks, BEHIND), 60)
    assert (running.asked, tasks.loads()) == (False, {})
    machine.say(BEHIND + 1)
    wait_for("its end", lambda: process(tasks) is None, 60)
    assert running.asked
    tasks.start("clean", (3,), 0, lambda event: None)
    wait_for("a new start", lambda: machine.starts == 2, 60)


def test_one_that_is_wanted_again_just_goes_on(machine: Machine, tasks: StageTasks) -> None:
    tasks.start("clean", EPOCH, 0, lambda event: None)
    machine.say(1)
    wait_for("it to run", lambda: has_looked(tasks, 1), 60)
    running = process(tasks)
    tasks.stop("clean", EPOCH)
    tasks.start("clean", (2,), 0, lambda event: None)
    machine.say(2 * BEHIND)
    wait_for("a look", lambda: has_looked(tasks, 2 * BEHIND), 60)
    assert process(tasks) is running
    assert running is not None
    assert not running.asked


def test_one_that_does_not_answer_any_more_is_broken(machine: Machine, tasks: StageTasks) -> None:
    tasks.start("clean", EPOCH, 0, lambda event: None)
    wait_for("it to be missed", lambda: tasks.broken() == {"clean"}, 60)
    machine.say(1)
    wait_for("it to run", lambda: tasks.broken() == frozenset(), 60)
    machine.said = None
    wait_for("it to be missed", lambda: tasks.broken() == {"clean"}, 60)
    tasks.stop("clean", EPOCH)
    wait_for("its end", lambda: tasks.broken() == frozenset(), 60)


def test_what_cannot_run_here_is_refused(tasks: StageTasks, tmp_path: Path) -> None:
    told: list[Event] = []
    tasks.prepare("other", EPOCH, "south", told.append)
    assert len(told) == 1
    file = tmp_path / "north.toml"
    file.write_text(PARTICIPANT.replace("clean/1", "clean/7"))
    with pytest.raises(InvalidArgumentError, match="clean/7' is no replica"):
        StageTasks(Participant.read(file))
