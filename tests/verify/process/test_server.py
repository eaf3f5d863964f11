"""Verifiers as they run: in processes that are killed, called by whoever likes to."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from harness.floods import BOUND, flood, peak_memory
from holdfast.errors import RefusedError, WireError
from holdfast.storage.journal import Journal
from holdfast.transport.client import LogClient, act
from holdfast.transport.security import Security
from holdfast.verify.machine import JobState, Kind, Run, Standing
from holdfast.verify.process.client import Verifiers
from holdfast.verify.process.messages import MAX_CALL, Answer, Asked, Envelopes, decode, encode
from holdfast.verify.process.server import MAX_WAITING, VerifierServer
from holdfast.verify.process.verifier_state import Entry
from tests.transport.parties import no_threads_left, wait_for
from tests.verify.process.charters import (
    charter,
    report,
    reports_of_a_stage,
    told,
    verifier_process,
    witness,
)


def ask(address: str) -> Standing:
    standing = decode(act(address, None, "consult", encode(Asked(-1))), Answer).standing
    assert isinstance(standing, Standing)
    return standing


def status(address: str) -> dict[str, object]:
    return json.loads(act(address, None, "status"))


def test_a_verifier_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    with verifier_process(tmp_path) as verifier:
        address = verifier.address
        first, *others = reports_of_a_stage("xxx")
        witness(1, address).report(first)
        verifier.kill()

        def speak() -> None:
            for each in others:
                witness(each.replica, address, timeout=60).report(each)

        speaking = Thread(target=speak)
        speaking.start()
        verifier.start()
        speaking.join(60)
        assert not speaking.is_alive()
        assert verifier.address == address
        before = ask(address)
        assert before.verdicts["hourly"].is_ok
        verifier.kill()
        verifier.start()
        with Verifiers(charter().plan, 3, [address]) as verifiers:
            assert verifiers.consult() == before


def test_it_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with verifier_process(tmp_path) as verifier:
        assert ask(verifier.address)
        verifier.process.send_signal(signal.SIGTERM)
        assert verifier.process.wait(60) == 0


def test_a_process_says_why_it_cannot_start(tmp_path: Path) -> None:
    with verifier_process(tmp_path) as verifier:
        assert verifier.address
        verifier.kill()
        (tmp_path / "charter.json").write_text("{}")
        verifier.start()
        assert verifier.process.wait(60) == 1


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("tell", b"junk"),
        ("tell", encode([[1, b"", b"short"]])),
        ("tell", encode({"a": 1})),
        ("consult", b""),
        ("consult", encode("x")),
        ("chunk", encode(("hourly", 0))),
        ("chunk", encode(("none", 0, 0))),
        ("told", encode((b"", -1))),
        ("told", encode((b"a guess", 0))),
        ("told", encode([])),
        ("reboot", b""),
        ("tell", bytes(MAX_CALL + 1)),
    ],
)
def test_whatever_it_is_sent_it_stays_up_and_changes_nothing(
    tmp_path: Path, name: str, body: bytes
) -> None:
    with no_threads_left(), VerifierServer(charter(), tmp_path) as server:
        address = str(server.address)
        before = ask(address)
        with pytest.raises(WireError):
            act(address, None, name, body)
        assert ask(address) == before
        assert status(address)["refused"] == {"action": 1}


def test_refusals_are_told_and_counted(tmp_path: Path) -> None:
    with VerifierServer(charter(), tmp_path) as server:
        address = str(server.address)
        with pytest.raises(RefusedError, match="in the name of replica 2"):
            witness(1, address).report(report(2))
        answers = act(address, None, "tell", encode([told(1, report(1)), told(1, report(2))]))
        assert [bool(answer) for answer in decode(answers, list[str])] == [False, True]
        assert status(address)["counts"] == {"told": 1}
        assert status(address)["refused"] == {"ForgedError": 2}


def test_no_rows_and_no_links(tmp_path: Path) -> None:
    with VerifierServer(charter(), tmp_path) as server, LogClient(str(server.address)) as client:
        with pytest.raises(RefusedError, match="no rows"):
            client.fetch(b"x")
        assert client.streams() == {}


def test_it_decides_in_time_what_nobody_reports(tmp_path: Path) -> None:
    with VerifierServer(charter(patience=0.2), tmp_path) as server:
        address = str(server.address)
        for each in reports_of_a_stage("xxy"):
            witness(each.replica, address).report(each)
        wait_for(lambda: ask(address).verdicts["hourly"].run == Run(0, 1))
        missing = [each for each in ask(address).findings if each.kind is Kind.MISSING]
        assert {each.replica for each in missing} == {4}


def test_verifiers_tell_each_other_what_they_were_told(tmp_path: Path) -> None:
    """One that was down catches up; one to whom something else was said hears of that too."""
    with VerifierServer(charter(), tmp_path / "1") as first:
        one = str(first.address)
        for each in reports_of_a_stage("xxx"):
            witness(each.replica, one).report(each)
        with VerifierServer(charter(), tmp_path / "2", peers=[one]) as second:
            two = str(second.address)
            act(two, None, "tell", encode([told(3, report(3, "y"))]))
            wait_for(lambda: ask(two).verdicts["hourly"].is_ok or ask(two).findings)
            wait_for(lambda: any(each.kind is Kind.EQUIVOCATED for each in ask(two).findings))
            assert {each.replica for each in ask(two).findings} == {3}
            for number in (0, 1):
                act(two, None, "tell", encode([told(4, report(4, slice=number))]))
            assert ask(two).verdicts["hourly"].is_ok


def test_only_verifiers_hear_votes_before_they_are_agreed_upon(tmp_path: Path) -> None:
    secret = replace(charter(), peer_key=bytes(range(32)))
    with VerifierServer(secret, tmp_path / "1") as first:
        one = str(first.address)
        for each in reports_of_a_stage("xxx"):
            witness(each.replica, one).report(each)
        for guess in (b"", bytes(32)):
            with pytest.raises(RefusedError, match="with the key of verifiers"):
                act(one, None, "told", encode((guess, 0)))
        with VerifierServer(secret, tmp_path / "2", peers=[one]) as second:
            two = str(second.address)
            wait_for(lambda: ask(two).verdicts["hourly"].is_ok)


def test_verifiers_tell_each_other_as_much_as_a_call_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "holdfast.verify.process.server.MAX_TOLD", len(told(1, report(1)).body) * 3 // 2
    )
    with VerifierServer(charter(), tmp_path / "1") as first:
        address = str(first.address)
        for number in (1, 2, 3):
            witness(number, address).report(report(number))
        for start, count in ((0, 1), (2, 1), (3, 0)):
            answer = act(address, None, "told", encode((b"", start)))
            assert len(decode(answer, Envelopes)) == count


class HeldJournal:
    """Writes of all journals wait until they are let go on; those of several entries may fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> None:
        self.written: list[int] = []
        self.is_writing, self.go_on = Event(), Event()
        append = Journal.append

        def write(journal: Journal[Entry], entries: Sequence[Entry]) -> None:
            self.written.append(len(entries))
            self.is_writing.set()
            assert self.go_on.wait(60)
            if fails and len(entries) > 1:
                raise RuntimeError("a mistake of ours")
            append(journal, entries)

        monkeypatch.setattr(Journal, "append", write)

    def tell_all(self, server: VerifierServer, timeout: float) -> list[Future[None]]:
        """Reports of a stage that all come while the first is written."""
        address = str(server.address)
        first, *others = reports_of_a_stage("xxxx")
        with ThreadPoolExecutor(8) as pool:
            telling = [pool.submit(witness(first.replica, address).report, first)]
            assert self.is_writing.wait(60)
            telling += [
                pool.submit(witness(each.replica, address, timeout=timeout).report, each)
                for each in others
            ]
            wait_for(lambda: len(server._calls) == len(others))
            self.go_on.set()
        return telling


def test_what_is_told_while_it_writes_is_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else thousands of tasks wait for one write each, one after the other."""
    journal = HeldJournal(monkeypatch)
    with VerifierServer(charter(), tmp_path) as server:
        telling = journal.tell_all(server, timeout=20.0)
        for each in telling:
            each.result()
        assert journal.written == [1, len(telling) - 1]
        assert ask(str(server.address)).verdicts["hourly"].is_ok


def test_nobody_thinks_that_it_was_heard_when_all_of_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = HeldJournal(monkeypatch, fails=True)
    with VerifierServer(charter(), tmp_path) as server:
        first, *failing = journal.tell_all(server, timeout=0.0)
        first.result()
        assert failing
        assert all(isinstance(each.exception(), WireError) for each in failing)


def test_copies_that_are_broken_again_are_not_read_again(tmp_path: Path) -> None:
    """The job ends in the end, though the coordinator says the same of the same replicas."""
    with VerifierServer(charter(retries=1), tmp_path) as server:
        address = str(server.address)
        coordinator = witness(0, address)
        with Verifiers(charter().plan, 1, [address]) as verifiers:
            for attempt in (0, 1):
                for each in reports_of_a_stage("xxx"):
                    again = replace(each, run=Run(0, attempt), path=f"{each.path}-{attempt}")
                    witness(each.replica, address).report(again)
                assert verifiers.consult().verdicts["hourly"].is_ok
                for maker in (1, 2, 3):
                    coordinator.broken("hourly", 0, maker)
            assert verifiers.consult().state is JobState.FAILED


@pytest.mark.parametrize("token", ["wrong", "right"])
def test_no_call_fills_its_memory(tmp_path: Path, token: str) -> None:
    """A replica has the token, and may lie."""
    path = tmp_path / "token"
    path.write_text("right")
    right = Security("right")
    with verifier_process(tmp_path, f"--token-file={path}") as verifier:
        address = verifier.address
        wait_for(lambda: answers(address, right))
        before = peak_memory(verifier.process.pid)
        assert flood(address, Security(token), calls=4) == 4
        assert peak_memory(verifier.process.pid) - before < BOUND
        assert json.loads(act(address, right, "status"))["state"] == "running"


def answers(address: str, security: Security) -> bool:
    try:
        return bool(act(address, security, "status"))
    except WireError:
        return False


def asks_for_news(address: str, version: int, caller: int | None, signed_by: int) -> Answer:
    proof = witness(signed_by, address).shows_itself()[1]
    asked = encode(Asked(version, 60.0, caller, proof))
    return decode(act(address, None, "consult", asked, timeout=90), Answer)


def test_callers_that_wait_do_not_take_the_places_of_others(tmp_path: Path) -> None:
    with (
        VerifierServer(charter(), tmp_path) as server,
        ThreadPoolExecutor(2 * MAX_WAITING) as others,
        ThreadPoolExecutor(1) as one,
    ):
        address = str(server.address)
        version = decode(act(address, None, "consult", encode(Asked(-1))), Answer).version
        # Nobody, and one that says that it is replica 1: those beyond the places go at once.
        idle = [
            others.submit(asks_for_news, address, version, caller, 2)
            for caller in (None, 1) * MAX_WAITING
        ]
        wait_for(lambda: sum(each.done() for each in idle) == MAX_WAITING)
        asked = server._server.counts["actions"]
        waits = one.submit(asks_for_news, address, version, 1, 1)
        wait_for(lambda: server._waiting[1] == 1)
        assert sum(each.done() for each in idle) == MAX_WAITING
        witness(1, address).report(reports_of_a_stage("xxx")[0])
        assert waits.result().version > version
        assert {each.result().standing is None for each in idle} == {True, False}
        assert server._server.counts["actions"] - asked == MAX_WAITING + 2, "it has asked once"


@pytest.mark.parametrize("patience", [-1.0, 1e9, float("nan")])
def test_nobody_waits_for_ever(tmp_path: Path, patience: float) -> None:
    with (
        VerifierServer(charter(), tmp_path) as server,
        pytest.raises(RefusedError, match="cannot be read"),
    ):
        act(str(server.address), None, "consult", encode(Asked(0, patience)))
