"""What tasks may ask of the verifiers, with a verifier that is asked over the wire."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Model, Plan, Report, Rules, Run, basis_of
from holdfast.verify.calls import Unverified
from holdfast.verify.charter import Charter
from holdfast.verify.client import Witness
from holdfast.verify.errors import NotAgreedError
from holdfast.verify.server import VerifierServer
from holdfast.verify.signing import Signer
from holdfast.verify.task_calls import TaskCalls

PLAN = Plan({"hourly": (), "bills": ("hourly",)}, slices=2)
REPLICAS = (1, 2, 3, 4)


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[dict[int, TaskCalls]]:
    """Of stage hourly, by replica."""
    signers = {number: Signer.make() for number in (0, *REPLICAS)}
    keys = {number: signer.public for number, signer in signers.items()}
    rules = Rules(shared_hosts=True)
    charter = Charter("job", dict(PLAN.stages), 2, Model.BYZANTINE, 1, rules, keys)
    with VerifierServer(charter, tmp_path, "127.0.0.1:0", None, []) as server:
        address = str(server.address)
        yield {
            number: TaskCalls(
                stage="hourly",
                run=Run(),
                basis=basis_of({}),
                stages=dict(PLAN.stages),
                slices=2,
                retries=3,
                witness=Witness("job", number, signers[number], (address,)),
                asks=(address,),
            )
            for number in REPLICAS
        }


def test_a_task_waits_until_enough_have_told_the_same(calls: dict[int, TaskCalls]) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = {
            number: pool.submit(each.blocking_verify, 1, b"lie" if number == 3 else b"truth")
            for number, each in calls.items()
        }
        assert {number: answer.result(60) for number, answer in answers.items()} == {
            1: True,
            2: True,
            3: False,
            4: True,
        }


def test_parts_are_told_without_waiting(calls: dict[int, TaskCalls]) -> None:
    first = {n: calls[n].non_blocking_verify(0, b"a" if n == 1 else b"b", 0) for n in REPLICAS}
    second = {n: calls[n].non_blocking_verify(0, b"c", 1) for n in REPLICAS}
    assert [answer.result(60) for answer in first.values()] == [False, True, True, True]
    assert all(answer.result(60) for answer in second.values())


def test_too_few_who_tell_the_same_is_an_error_after_a_while(calls: dict[int, TaskCalls]) -> None:
    with pytest.raises(NotAgreedError, match="stage hourly: task 0, part 4095: too few"):
        replace(calls[1], patience=0.2).blocking_verify(0, b"alone")


def test_who_holds_a_slice_is_told(calls: dict[int, TaskCalls]) -> None:
    assert calls[1].consult_verifier("hourly", 1) == ()
    for number in (1, 3, 4):
        calls[number].witness.report(
            Report(
                job="job",
                stage="hourly",
                run=Run(),
                slice=1,
                replica=number,
                host=f"host-{number}",
                path=f"{number}/1.slice",
                digest=bytes(32),
                rows=5,
                basis=basis_of({}),
            )
        )
    holders = calls[2].consult_verifier("hourly", 1)
    assert [(each.replica, each.path) for each in holders] == [
        (1, "1/1.slice"),
        (3, "3/1.slice"),
        (4, "4/1.slice"),
    ]


@pytest.mark.parametrize("task", [-1, 2])
def test_tasks_are_no_more_than_slices(calls: dict[int, TaskCalls], task: int) -> None:
    for call in (
        lambda: calls[1].blocking_verify(task, b""),
        lambda: calls[1].non_blocking_verify(task, b"", 0),
        lambda: calls[1].consult_verifier("hourly", task),
    ):
        with pytest.raises(InvalidArgumentError, match=f"task is {task}"):
            call()


@pytest.mark.parametrize("seq", [-1, 4095])
def test_parts_have_numbers(calls: dict[int, TaskCalls], seq: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"seq is {seq}"):
        calls[1].non_blocking_verify(0, b"", seq)


def test_an_unknown_stage_is_named(calls: dict[int, TaskCalls]) -> None:
    with pytest.raises(InvalidArgumentError, match="no 'daily'; give one of hourly, bills"):
        calls[1].consult_verifier("daily", 0)


def test_calls_travel(calls: dict[int, TaskCalls]) -> None:
    assert pickle.loads(pickle.dumps(calls[1])) == calls[1]


def test_a_job_that_is_run_once_takes_what_it_gets() -> None:
    calls = Unverified()
    assert calls.blocking_verify(0, b"x")
    assert calls.non_blocking_verify(0, b"x", 0).result(0)
    assert calls.consult_verifier("hourly", 0) == ()
