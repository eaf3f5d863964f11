"""What tasks may ask of the verifiers, with a verifier that is asked over the wire."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError, NotAgreedError, RefusedError
from holdfast.storage.signing import Signer
from holdfast.verify.machine import Model, Plan, Report, Rules, Run, basis_of
from holdfast.verify.process.client import Witness
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.messages import MAX_DATA
from holdfast.verify.process.server import VerifierServer
from holdfast.verify.process.task_api import TaskCalls, Unverified
from holdfast.verify.process.verifier_state import Register

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


def test_what_is_told_raw_is_had_by_all(calls: dict[int, TaskCalls]) -> None:
    told = {1: b"lie", 2: b"truth", 3: b"truth", 4: b"truth"}
    assert calls[1].agreed_output("hourly", 0) is None
    with ThreadPoolExecutor(4) as pool:
        whole = {n: pool.submit(calls[n].blocking_verify, 0, told[n], raw=True) for n in REPLICAS}
        parts = {n: calls[n].non_blocking_verify(0, told[n], 7, raw=n == 3) for n in REPLICAS}
        digests = {n: calls[n].non_blocking_verify(0, told[n], 8) for n in REPLICAS}
        for answers in (whole, parts, digests):
            assert [answers[n].result(60) for n in REPLICAS] == [False, True, True, True]
    for replica in REPLICAS:
        assert calls[replica].agreed_output("hourly", 0) == b"truth"
        assert calls[replica].agreed_output("hourly", 0, 7) == b"truth", "one has told it raw"
        assert calls[replica].agreed_output("hourly", 0, 8) is None, "only its digest was told"
        assert calls[replica].agreed_output("hourly", 1) is None


def test_what_is_large_is_not_told_raw(calls: dict[int, TaskCalls]) -> None:
    large = bytes(MAX_DATA + 1)
    with pytest.raises(InvalidArgumentError, match="65,537 bytes are too many to be told raw"):
        calls[1].blocking_verify(0, large, raw=True)
    with pytest.raises(InvalidArgumentError, match="65,537 bytes are too many to be told raw"):
        calls[1].non_blocking_verify(0, large, 0, raw=True)
    most = [calls[n].non_blocking_verify(0, large[:-1], 0, raw=True) for n in REPLICAS]
    assert all(answer.result(60) for answer in most)
    assert calls[1].agreed_output("hourly", 0, 0) == large[:-1]


def test_data_with_the_digest_of_other_data_is_refused(calls: dict[int, TaskCalls]) -> None:
    report = Report(
        job="job",
        stage="hourly",
        run=Run(),
        slice=0,
        replica=1,
        host="host-1",
        path="-",
        digest=sha256(b"truth").digest(),
        rows=5,
        basis=basis_of({}),
        seq=0,
        data=b"lie",
    )
    with pytest.raises(RefusedError, match="replica 1 tells has another digest than it says"):
        calls[1].witness.report(report)
    with pytest.raises(RefusedError, match="a whole slice lies in storage"):
        calls[1].witness.report(replace(report, seq=None))
    with pytest.raises(RefusedError, match="too large to be told raw"):
        calls[1].witness.report(replace(report, data=bytes(MAX_DATA + 1)))


def test_a_verifier_that_hands_out_other_data_is_not_believed(
    calls: dict[int, TaskCalls], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [calls[n].non_blocking_verify(0, b"truth", 0, raw=True) for n in REPLICAS]
    assert all(answer.result(60) for answer in told)
    monkeypatch.setattr(Register, "raw_chunk", lambda *_: b"lie")
    assert calls[1].agreed_output("hourly", 0, 0) is None


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
                path=f"job/{number}/1.slice",
                digest=bytes(32),
                rows=5,
                basis=basis_of({}),
            )
        )
    holders = calls[2].consult_verifier("hourly", 1)
    assert [(each.replica, each.path) for each in holders] == [
        (1, "job/1/1.slice"),
        (3, "job/3/1.slice"),
        (4, "job/4/1.slice"),
    ]


@pytest.mark.parametrize("task", [-1, 2])
def test_tasks_are_no_more_than_slices(calls: dict[int, TaskCalls], task: int) -> None:
    for call in (
        lambda: calls[1].blocking_verify(task, b""),
        lambda: calls[1].non_blocking_verify(task, b"", 0),
        lambda: calls[1].consult_verifier("hourly", task),
        lambda: calls[1].agreed_output("hourly", task),
    ):
        with pytest.raises(InvalidArgumentError, match=f"task is {task}"):
            call()


@pytest.mark.parametrize("seq", [-1, 4095])
def test_parts_have_numbers(calls: dict[int, TaskCalls], seq: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"seq is {seq}"):
        calls[1].non_blocking_verify(0, b"", seq)
    with pytest.raises(InvalidArgumentError, match=f"seq is {seq}"):
        calls[1].agreed_output("hourly", 0, seq)


def test_an_unknown_stage_is_named(calls: dict[int, TaskCalls]) -> None:
    with pytest.raises(InvalidArgumentError, match="no 'daily'; give one of hourly, bills"):
        calls[1].consult_verifier("daily", 0)
    with pytest.raises(InvalidArgumentError, match="no 'daily'; give one of hourly, bills"):
        calls[1].agreed_output("daily", 0)


def test_calls_travel(calls: dict[int, TaskCalls]) -> None:
    assert pickle.loads(pickle.dumps(calls[1])) == calls[1]


def test_a_job_that_is_run_once_takes_what_it_gets() -> None:
    calls = Unverified()
    assert calls.blocking_verify(0, b"x")
    assert calls.non_blocking_verify(0, b"x", 0).result(0)
    assert calls.consult_verifier("hourly", 0) == ()
    assert calls.agreed_output("hourly", 0) is None
