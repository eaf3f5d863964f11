"""A replica's loop, with the verifier of the protocol and stages that need no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError, JobFailedError, StoreError
from holdfast.verify.machine import (
    Agreed,
    Compute,
    Holder,
    JobState,
    Mode,
    Model,
    Plan,
    Quorum,
    Report,
    Rules,
    Run,
    Standing,
    Verifier,
)
from holdfast.verify.process.replica import Replica, Trace

PLAN = Plan({"hourly": (), "charges": ("hourly",), "bills": ("charges",)}, slices=2)
ME = 1


class WaitsError(Exception):
    """One of the others can do nothing for now."""


class Others:
    """The verifiers as the others see them."""

    def __init__(self, world: World) -> None:
        self.world = world

    def consult(self) -> Standing:
        return self.world.verifier.standing()

    def wait(self, known: Standing) -> None:
        raise WaitsError


class World:
    """The verifier, replica 1, and three others that go on whenever it waits."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        rules = Rules(mode=mode, retries=1, shared_hosts=True)
        self.verifier = Verifier("job", PLAN, Quorum(Model.BYZANTINE), rules)
        self.lies: set[tuple[int, str]] = set()
        self.fails: list[Exception] = []
        self.waits = 0
        self.trace = folder / "1.trace"
        self.me = Replica(ME, PLAN, mode, self, Computer(self, ME), Trace(self.trace))
        self.others = [
            Replica(n, PLAN, mode, Others(self), Computer(self, n), Trace(folder / f"{n}.trace"))
            for n in (2, 3, 4)
        ]

    def consult(self) -> Standing:
        return self.verifier.standing()

    def wait(self, known: Standing) -> None:
        self.waits += 1
        assert self.waits < 50, "nothing goes on any more"
        self.let_others_work()

    def let_others_work(self) -> None:
        for other in self.others:
            with suppress(WaitsError):
                other.finish()

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.trace.read_text().splitlines())
        return [line for line in lines if line["event"] == event]

    def computed(self) -> list[str]:
        return [line["stage"] for line in self.events("made")]


class Computer:
    """What a stage gives depends on what it reads alone, unless its replica lies."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number

    def compute(self, step: Compute) -> tuple[Agreed, ...]:
        if self.number == ME and self.world.fails:
            raise self.world.fails.pop(0)
        lie = b"lie" if (self.number, step.stage) in self.world.lies else b""
        slices = []
        for number in range(PLAN.slices):
            digest = sha256(step.stage.encode() + step.basis + bytes([number]) + lie).digest()
            path = f"job/{self.number}/{step.stage}/{step.run}/{number}"
            host = f"host {self.number}"
            report = Report(
                job="job",
                stage=step.stage,
                run=step.run,
                slice=number,
                replica=self.number,
                host=host,
                path=path,
                digest=digest,
                rows=5,
                basis=step.basis,
            )
            self.world.verifier.report(report, 0.0)
            slices.append(Agreed(digest, 5, (Holder(self.number, host, path),)))
        return tuple(slices)


def is_verified(started: dict[str, Any]) -> bool:
    return all(each["verified"] for slices in started["inputs"].values() for each in slices)


@pytest.mark.parametrize("mode", Mode)
def test_a_clean_job_computes_each_stage_once(tmp_path: Path, mode: Mode) -> None:
    world = World(tmp_path, mode)
    assert world.me.finish().state is JobState.DONE
    assert world.computed() == ["hourly", "charges", "bills"]
    assert world.verifier.findings == ()


def test_blocking_reads_only_what_is_verified(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.BLOCKING)
    world.me.finish()
    assert all(map(is_verified, world.events("starts")))


def test_hybrid_goes_on_from_one_unverified_stage_and_not_from_two(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.me.finish()
    assert [is_verified(each) for each in world.events("starts")] == [True, False, True]


def test_non_blocking_goes_on_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.NON_BLOCKING)
    world.me.finish()
    assert [is_verified(each) for each in world.events("starts")] == [True, False, False]
    assert world.waits == 1


def test_an_outvoted_replica_reads_the_copy_of_another(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.BLOCKING)
    world.lies = {(ME, "hourly")}
    world.me.finish()
    (started,) = [each for each in world.events("starts") if each["stage"] == "charges"]
    for number, read in enumerate(started["inputs"]["hourly"]):
        assert read["replica"] in (2, 3, 4)
        assert read["path"] == f"job/{read['replica']}/hourly/0.0/{number}"
    assert {(each.replica, each.stage) for each in world.verifier.findings} == {(ME, "hourly")}


def test_what_was_made_of_an_outvoted_stage_is_made_again(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.lies = {(ME, "hourly"), (3, "charges")}
    assert world.me.finish().state is JobState.DONE
    assert world.computed() == ["hourly", "charges", "charges", "bills"]
    assert {each.run for each in world.consult().verdicts.values()} == {Run(0, 0)}


class Watch:
    """The others go on while replica 1 computes its second step and later ones; what is stale by
    then ends with an error."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.steps = self.ended = 0

    @contextmanager
    def over(self, is_stale: Callable[[Standing], bool]) -> Iterator[Watch]:
        self.steps += 1
        if self.steps > 1:
            self.world.let_others_work()
        self.is_stale = is_stale(self.world.consult())
        if self.is_stale:
            self.ended += 1
            self.world.fails.append(StoreError("cancelled"))
        yield self


def test_what_is_made_of_an_outvoted_stage_is_ended_and_begun_again(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.lies = {(ME, "hourly"), (3, "charges")}
    watch = Watch(world)
    trace = Trace(world.trace)
    world.me = Replica(ME, PLAN, Mode.HYBRID, world, Computer(world, ME), trace, watch)
    assert world.me.finish().state is JobState.DONE
    assert watch.ended == 1
    assert [each["stage"] for each in world.events("dropped")] == ["charges"]
    assert world.computed() == ["hourly", "charges", "bills"]


def test_what_the_others_have_agreed_on_is_not_computed(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    for _ in PLAN.stages:
        world.let_others_work()
    assert world.me.finish().state is JobState.DONE
    assert not world.trace.exists()


def test_a_stage_without_quorum_is_computed_again_in_another_run(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.BLOCKING)
    world.lies = {(2, "hourly"), (3, "hourly")}
    finished = world.me.work(PLAN.stages, lambda standing: max(_runs(standing)) > Run(0, 0))
    assert finished.verdicts["hourly"].run == Run(0, 1)
    world.lies = set()
    assert world.me.finish().state is JobState.DONE
    runs = [(each["stage"], tuple(each["run"])) for each in world.events("made")]
    assert runs[:2] == [("hourly", (0, 0)), ("hourly", (0, 1))]


def test_a_job_that_fails_says_who_disagreed(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.BLOCKING)
    world.lies = {(2, "hourly"), (3, "hourly")}
    with pytest.raises(JobFailedError, match="stage hourly: 3 of 4 replicas must agree"):
        world.me.finish()


def test_a_step_that_fails_is_tried_once_more(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.fails = [StoreError("all copies of slice 1 were broken")]
    assert world.me.finish().state is JobState.DONE
    (failed,) = world.events("failed")
    assert (failed["stage"], failed["why"]) == ("hourly", "all copies of slice 1 were broken")


def test_a_step_that_keeps_failing_ends_the_replica(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.fails = [StoreError("the first time"), StoreError("the second time")]
    with pytest.raises(StoreError, match="the second time"):
        world.me.finish()


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.NON_BLOCKING])
def test_who_cannot_read_its_own_slices_waits_for_those_that_are_verified(
    tmp_path: Path, mode: Mode
) -> None:
    """Somebody may have changed them, and there is no other copy as long as nobody agrees."""
    world = World(tmp_path, mode)
    me = world.me
    me.work(["hourly"], lambda standing: me.may_pass("hourly", standing))
    world.fails = [StoreError("none of its copies is right")]
    assert me.finish().state is JobState.DONE
    (failed,) = world.events("failed")
    assert failed["stage"] == "charges"
    starts = [each for each in world.events("starts") if each["stage"] != "hourly"]
    first, *others = map(is_verified, starts)
    assert not first
    assert all(others)


def test_a_mistake_in_a_stage_is_not_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path, Mode.HYBRID)
    world.fails = [InvalidArgumentError("stage hourly: has no columns")]
    with pytest.raises(InvalidArgumentError, match="no columns"):
        world.me.finish()


@pytest.mark.parametrize(("mode", "waits"), [(Mode.BLOCKING, 1), (Mode.HYBRID, 0)])
def test_how_far_a_program_may_go(tmp_path: Path, mode: Mode, waits: int) -> None:
    world = World(tmp_path, mode)
    me = world.me
    standing = me.work(["hourly"], lambda standing: me.may_pass("hourly", standing))
    assert world.waits == waits
    inputs = me.inputs_of("hourly", standing)
    assert [each.verified for each in inputs] == [mode is Mode.BLOCKING] * PLAN.slices
    assert {each.holders[0].replica for each in inputs} == {ME}
    assert world.computed() == ["hourly"]


def _runs(standing: Standing) -> list[Run]:
    return [verdict.run for verdict in standing.verdicts.values()]
