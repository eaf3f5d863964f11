"""Three verifiers of one job as processes, each killed while replicas report, one of which lies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from harness.ports import free_port
from holdfast.transport.client import act
from holdfast.verify.machine import JobState, Kind, Standing, basis_of
from holdfast.verify.process.client import Verifiers
from holdfast.verify.process.messages import encode
from tests.transport.parties import wait_for
from tests.verify.process.charters import (
    VerifierProcess,
    charter,
    digest,
    report,
    reports_of_a_stage,
    told,
    verifier_process,
    witness,
)

PLAN = charter().plan


def restart(verifier: VerifierProcess) -> None:
    verifier.kill()
    verifier.start()


def is_over(standing: Standing) -> bool:
    """Whether the job is done, and the liar's different words have come together."""
    kinds = {each.kind for each in standing.findings}
    return standing.state is JobState.DONE and Kind.EQUIVOCATED in kinds


def speak(replica: int, addresses: list[str]) -> None:
    """What an honest replica reports."""
    of = basis_of({"hourly": [digest("x"), digest("x")]})
    reports = (*reports_of_a_stage("xxxx"), *reports_of_a_stage("vvvv", "total", of))
    for each in reports:
        if each.replica == replica:
            witness(replica, *addresses, timeout=120).report(each)


def test_all_come_to_the_same_end_whoever_is_killed_and_lies(tmp_path: Path) -> None:
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    with ExitStack() as stack:
        processes = []
        for number, address in enumerate(addresses):
            options = ["--address", address]
            for peer in addresses:
                options += ["--peer", peer] if peer != address else []
            folder = tmp_path / str(number)
            processes.append(stack.enter_context(verifier_process(folder, *options)))
        wait_for(lambda: all(process.address for process in processes), 60)
        for word, address in zip("xyz", addresses, strict=True):
            act(address, None, "tell", encode([told(4, report(4, word))]))
        with ThreadPoolExecutor(3) as pool:
            speaking = [pool.submit(speak, replica, addresses) for replica in (1, 2, 3)]
            for process in processes:
                restart(process)
            for each in speaking:
                each.result(120)
        for address in addresses:
            with Verifiers(PLAN, 3, [address]) as verifier:
                wait_for(lambda verifier=verifier: is_over(verifier.consult()), 60)
                standing = verifier.consult()
            assert {each.replica for each in standing.findings} == {4}
            agreed = standing.verdicts["hourly"].slices[0]
            assert agreed.digest == digest("x")
            assert [holder.replica for holder in agreed.holders] == [1, 2, 3]
