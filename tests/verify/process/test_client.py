from __future__ import annotations

import json
import pickle
import random
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer

import pytest

from holdfast.errors import RefusedError, StoreUnavailableError, UnreachableError
from holdfast.storage.journal import Journal
from holdfast.transport.client import act
from holdfast.verify.machine import JobState, Run, Standing, basis_of
from holdfast.verify.process import client
from holdfast.verify.process.client import FIRST_LOOK, LAST_LOOK, Pauses, Verifiers
from holdfast.verify.process.server import VerifierServer
from holdfast.verify.process.verifier_state import Entry
from tests.transport.parties import no_threads_left
from tests.verify.process.charters import charter, digest, report, reports_of_a_stage, witness

PLAN = charter().plan


@contextmanager
def servers(folder: Path, count: int) -> Iterator[list[VerifierServer]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(VerifierServer(charter(), folder / str(number)))
            for number in range(count)
        ]


def nowhere() -> str:
    """An address where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def run_stages(addresses: list[str]) -> None:
    of = basis_of({"hourly": [digest("x"), digest("x")]})
    for each in (*reports_of_a_stage("xxx"), *reports_of_a_stage("vvv", "total", of)):
        witness(each.replica, *addresses).report(each)


def test_a_job_from_start_to_end(tmp_path: Path) -> None:
    with no_threads_left(), servers(tmp_path, 1) as (server,):
        address = str(server.address)
        with Verifiers(PLAN, 3, [address]) as verifiers:
            assert verifiers.consult().state is JobState.RUNNING
            witness(1, address).start("host1")
            assert json.loads(act(address, None, "status"))["started"] == {"1": "host1"}
            run_stages([address])
            standing = verifiers.consult()
            assert standing.state is JobState.DONE
            assert verifiers.consult() is standing, "nothing new is nothing to look at again"
            witness(0, address).broken("total", 0, 1)
            holders = verifiers.consult().verdicts["total"].slices[0].holders
            assert [each.replica for each in holders] == [2, 3]


def test_it_travels() -> None:
    speaker = witness(1, "127.0.0.1:1")
    assert pickle.loads(pickle.dumps(speaker)) == speaker
    assert speaker.signer.secret.hex() not in repr(speaker)


def test_one_of_three_may_be_down(tmp_path: Path) -> None:
    with servers(tmp_path, 2) as (first, second):
        addresses = [str(first.address), nowhere(), str(second.address)]
        run_stages(addresses)
        with Verifiers(PLAN, 3, addresses) as verifiers:
            assert verifiers.consult().state is JobState.DONE


def test_one_of_three_may_lie(tmp_path: Path) -> None:
    """It was told other things, which is as good as lying."""
    with servers(tmp_path, 3) as (first, second, third):
        addresses = [str(each.address) for each in (first, second, third)]
        of = basis_of({"hourly": [digest("z"), digest("z")]})
        for each in (*reports_of_a_stage("zzz"), *reports_of_a_stage("vvv", "total", of)):
            witness(each.replica, addresses[1]).report(each)
        run_stages([addresses[0], addresses[2]])
        with Verifiers(PLAN, 3, addresses) as verifiers:
            standing = verifiers.consult()
            assert standing.state is JobState.DONE
            assert standing.verdicts["hourly"].slices[0].digest == digest("x")


def test_two_of_three_are_too_few_to_be_down(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as (server,):
        addresses = [str(server.address), nowhere(), nowhere()]
        with pytest.raises(UnreachableError):
            witness(1, *addresses, timeout=0.2).report(report(1))
        with (
            Verifiers(PLAN, 3, addresses, timeout=0.2) as verifiers,
            pytest.raises(UnreachableError),
        ):
            verifiers.consult()


def test_what_was_said_stays_said_while_nobody_answers(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as (server,):
        address = str(server.address)
        run_stages([address])
        verifiers = Verifiers(PLAN, 3, [address])
        standing = verifiers.consult()
        answered = verifiers.answered
        assert answered is not None
    with verifiers:
        assert verifiers.consult() is standing
        assert verifiers.answered == answered, "so nobody takes it for news"


def wait_for_ever(verifiers: Verifiers, known: Standing) -> None:
    """As a replica waits; here for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        verifiers.wait(known)


def test_who_waits_for_verifiers_that_are_gone_gives_up(tmp_path: Path) -> None:
    """A replica whose coordinator was killed: it has an answer, and will never have another."""
    with servers(tmp_path, 2) as (first, second):
        addresses = [str(first.address), str(second.address), nowhere()]
        verifiers = Verifiers(PLAN, 3, addresses, timeout=1.0)
        known = verifiers.consult()
        second.close()
        with verifiers, pytest.raises(UnreachableError):
            wait_for_ever(verifiers, known)
        assert verifiers.silent_since(0) is None
        assert verifiers.silent_since(1) is not None


def test_who_has_computed_for_long_does_not_give_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers(tmp_path, 1) as (server,):
        verifiers = Verifiers(PLAN, 3, [str(server.address)], timeout=0.0)
        known = verifiers.consult()
    with verifiers:
        assert verifiers.consult() is known, "the verifier may just be started again"
        with pytest.raises(UnreachableError):
            verifiers.consult()
        monkeypatch.setattr(client, "IDLE", 0.0)
        assert verifiers.consult() is known, "it has computed since it asked in vain"


def test_a_verifier_that_cannot_write_for_a_while_is_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, failures = Journal.append, iter(["full", "full"])

    def try_to_append(journal: Journal[Entry], entries: Sequence[Entry]) -> None:
        for why in failures:
            raise StoreUnavailableError(why)
        append(journal, entries)

    monkeypatch.setattr(Journal, "append", try_to_append)
    with servers(tmp_path, 1) as (server,):
        witness(1, str(server.address)).report(report(1))
        assert json.loads(server.status())["counts"] == {"told": 1}
        assert next(failures, None) is None


def test_refusals_of_most_are_final(tmp_path: Path) -> None:
    with servers(tmp_path, 3) as found:
        addresses = [str(each.address) for each in found]
        with pytest.raises(RefusedError, match="in the name of replica 2"):
            witness(1, *addresses).report(report(2))
        with pytest.raises(RefusedError, match="only the coordinator"):
            witness(1, *addresses).gone(2, 1)


def test_the_coordinator_says_who_is_gone_and_back(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as (server,):
        address = str(server.address)
        coordinator = witness(0, address)
        with Verifiers(PLAN, 3, [address]) as verifiers:
            coordinator.gone(4, 1)
            assert [each.replica for each in verifiers.consult().findings] == [4]
            coordinator.back(4, 2)
            for each in reports_of_a_stage("xxy"):
                witness(each.replica, address).report(each)
            assert verifiers.consult().verdicts["hourly"].run == Run()
            coordinator.gone(4, 3)
            assert verifiers.consult().verdicts["hourly"].run == Run(0, 1)


def test_waiting_ends_with_news(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as (server,):
        address = str(server.address)
        with Verifiers(PLAN, 3, [address]) as verifiers:
            known = verifiers.consult()
            speaking = Timer(0.05, run_stages, [[address]])
            speaking.start()
            while verifiers.consult() == known:
                verifiers.wait(known)
            speaking.join()
            assert verifiers.consult().state is JobState.DONE


def test_a_verifier_waits_for_news_so_long_as_it_is_asked_to(tmp_path: Path) -> None:
    with servers(tmp_path, 3) as found:
        addresses = [str(each.address) for each in found]
        with Verifiers(PLAN, 3, addresses) as verifiers:
            known = verifiers.consult()
            verifiers.await_news(0.01)
            assert verifiers.consult() is known
            speaking = Timer(0.05, run_stages, [addresses])
            speaking.start()
            begun = time.monotonic()
            verifiers.await_news(60.0)
            assert time.monotonic() - begun < 30
            speaking.join()
            found[0].close()
            for _ in range(3):
                verifiers.await_news(0.01)
            assert verifiers.consult().state is JobState.DONE


def test_nobody_waits_for_verifiers_that_never_answered() -> None:
    with Verifiers(PLAN, 3, [nowhere()]) as verifiers:
        begun = time.monotonic()
        verifiers.await_news(60.0)
        assert time.monotonic() - begun < 30


def test_chunks(tmp_path: Path) -> None:
    with servers(tmp_path, 3) as found:
        addresses = [str(each.address) for each in found]
        with Verifiers(PLAN, 3, addresses) as verifiers:
            assert verifiers.chunk("hourly", 0, 5) is None
            for replica in (1, 2, 3):
                witness(replica, *addresses).report(report(replica, seq=5))
            agreed = verifiers.chunk("hourly", 0, 5)
            assert agreed is not None
            assert agreed.digest == digest("x")


@pytest.mark.parametrize("is_new", [False, True])
def test_nobody_asks_for_news_without_rest(is_new: bool) -> None:
    """Verifiers that answer at once, as they did to all when 100 callers were waiting."""
    draw = random.Random(1)
    pauses = Pauses(draw.random)
    rests = [pauses.after(0.0, is_new=is_new) for _ in range(100)]
    assert min(rests) >= FIRST_LOOK / 2
    if not is_new:
        assert sum(rests[10:]) > 90 * LAST_LOOK / 2
        assert len({round(each, 6) for each in rests}) == 100, "not all callers at once"


def test_who_has_waited_asks_again_at_once() -> None:
    pauses = Pauses(lambda: 1.0)
    assert [pauses.after(0.0, is_new=False) for _ in range(6)][-1] == LAST_LOOK
    assert pauses.after(1.0, is_new=False) == 0.0
    assert pauses.after(0.0, is_new=True) == FIRST_LOOK
    assert pauses.after(LAST_LOOK / 2, is_new=True) == 0.0
