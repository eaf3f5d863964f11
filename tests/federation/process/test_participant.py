"""Load managers as they run: real sockets, signatures, journals; tasks only say that they run."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError, WireError
from holdfast.federation.machine import Command, Letter, Load, Manager, reconcile
from holdfast.federation.machine.messages import Beat, Bound, Offer
from holdfast.federation.process import participant
from holdfast.federation.process.envelopes import seal
from holdfast.federation.process.participant import STATUS, LoadManager, read_signer
from holdfast.federation.process.records import LEDGER, read_ledger
from holdfast.runtime.clock import Clock
from holdfast.transport.client import act
from tests.federation.process.rig import Federation

PRICES = {("north", "south"): "price = 6.0", ("south", "north"): "price = 6.0"}


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """A tenth more costs 6 a unit at three tenths: what is above pays to be handed over."""
    return Federation(tmp_path, {"north": 6, "south": 0}, PRICES)


def runs(federation: Federation) -> dict[str, int]:
    return {name: len(each.running) for name, each in federation.tasks.items()}


def agree(federation: Federation) -> bool:
    ledgers = [read_ledger(federation.folder / name / LEDGER) for name in ("north", "south")]
    return len(ledgers[0]) == 3 and reconcile(*ledgers) == []


def test_load_moves_and_both_ledgers_say_so(federation: Federation) -> None:
    with federation.start("north") as north, federation.start("south") as south:
        wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        wait_for("equal ledgers", lambda: agree(federation), 10)
        assert north.status()["balances"] == {"south": pytest.approx(-1.8)}
        assert south.status()["balances"] == {"north": pytest.approx(1.8)}
        assert north.failure is None
        assert south.failure is None


def test_tasks_come_home_from_a_partner_that_is_gone_and_are_not_run_twice(
    federation: Federation,
) -> None:
    with federation.start("north"):
        south = federation.start("south")
        wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        epochs = dict(federation.tasks["south"].running)
        south.close()
        wait_for("tasks at home", lambda: len(federation.tasks["north"].running) == 6, 20)
        assert all(federation.tasks["north"].running[task] > epochs[task] for task in epochs)
        with federation.start("south") as again:
            wait_for(
                "what it had is cancelled, and what is new comes",
                lambda: runs(federation) == {"north": 3, "south": 3},
                20,
            )
            assert again.failure is None


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_step_of_the_clock_moves_nothing(federation: Federation, step: int) -> None:
    """Of the lender's, by far more than its patience; and again when it is started anew."""
    ahead = 0

    def wall() -> int:
        return time.time_ns() // 1000 + ahead * 1_000_000

    def hears(manager: LoadManager, more: int) -> None:
        heard = manager.counts["received"] + more
        wait_for("beats", lambda: manager.counts["received"] >= heard, 60)

    with federation.start("south"):
        with federation.start("north", Clock(wall)) as north:
            wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
            ahead = step
            hears(north, 5)
            assert runs(federation) == {"north": 3, "south": 3}
            assert north.status()["failed"] == []
        with federation.start("north", Clock(wall)) as north:
            wait_for("its own tasks", lambda: len(federation.tasks["north"].running) == 3, 10)
            hears(north, 5)
            assert len(north.status()["lent"]) == 3
            assert north.status()["balances"] == {"south": pytest.approx(-1.8)}


def test_a_task_that_fails_at_the_partner_comes_home(tmp_path: Path) -> None:
    federation = Federation(tmp_path, {"north": 6, "south": 0}, PRICES)
    for name in ("north", "south"):
        file = federation.file(name)
        file.write_text(
            file.read_text().replace('patience = "2s"', 'patience = "2s"\nprepare = "1s"')
        )
    with federation.start("north"), federation.start("south"):
        wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        (failing, *_) = federation.tasks["south"].running
        federation.tasks["south"].fails = {failing}
        wait_for("it to come home", lambda: failing in federation.tasks["north"].running, 30)
        wait_for("south to end it", lambda: failing not in federation.tasks["south"].running, 20)


def test_a_manager_goes_on_from_its_journal(federation: Federation) -> None:
    with federation.start("south"):
        with federation.start("north"):
            wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        with federation.start("north") as north:
            wait_for("its own tasks", lambda: len(federation.tasks["north"].running) == 3, 10)
            assert len(north.status()["lent"]) == 3


def test_measured_loads_are_smoothed_and_decide(federation: Federation) -> None:
    with federation.start("north"), federation.start("south"):
        wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        for name, load in (("south", 0.01), ("north", 0.25)):
            tasks = federation.tasks[name]
            tasks.measured = dict.fromkeys(list(tasks.running), Load(load))
        wait_for("more to move", lambda: runs(federation)["north"] < 3, 20)


def test_strangers_and_other_terms_are_refused(federation: Federation) -> None:
    with federation.start("south") as south:
        address = south.participant.address
        north = federation.signers["north"]
        for signer, terms, word in (
            (federation.signers["south"], b"", "not signed by north"),
            (north, b"other", "has other terms"),
        ):
            letter = Letter((1, 1), (0, 0), Bound(), Beat())
            data = seal(signer, "north", "south", terms, letter)
            with pytest.raises(WireError, match=word):
                act(address, None, "tell", data)
        with pytest.raises(WireError, match="knows tell"):
            act(address, None, "status", b"")


def test_letters_of_a_partner_that_floods_are_refused(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participant, "MOST_LETTERS", 5)
    heard, go_on = Event(), Event()

    def hold(manager: Manager, now: int) -> list[Command]:
        heard.set()
        assert go_on.wait(20)
        return []

    with federation.start("south") as south:
        terms = south._terms("north")
        letters = [
            seal(
                federation.signers["north"],
                "north",
                "south",
                terms,
                Letter((1, number), (0, 0), Bound((1, number)), Offer(number, 6.0, (), 1)),
            )
            for number in range(1, 9)
        ]
        address = south.participant.address
        south.tell(hold)
        assert heard.wait(20)
        for each in letters[:5]:
            act(address, None, "tell", each)
        for each in letters[5:7]:
            with pytest.raises(WireError, match="5 of north wait"):
                act(address, None, "tell", each)
        go_on.set()
        wait_for("letters to be heard", lambda: not south._waiting["north"], 10)
        act(address, None, "tell", letters[7])
        assert south.status()["counts"]["refused"] == 2
        assert south.failure is None


def test_a_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(InvalidArgumentError, match="contracts key"):
        read_signer(path)
    path.write_text("ab" * 32)
    path.chmod(0o644)
    with pytest.raises(InvalidArgumentError, match="chmod 600"):
        read_signer(path)
    path.chmod(0o600)
    assert read_signer(path).secret == b"\xab" * 32
    path.write_text("nonsense")
    with pytest.raises(InvalidArgumentError, match="is no key"):
        read_signer(path)


def test_tasks_come_back_after_the_duration_when_they_are_cheaper_at_home(tmp_path: Path) -> None:
    prices = {pair: f'{price}\nduration = "2s"' for pair, price in PRICES.items()}
    federation = Federation(tmp_path, {"north": 6, "south": 0}, prices)
    with federation.start("north") as north, federation.start("south") as south:
        wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
        for tasks in federation.tasks.values():
            tasks.measured = dict.fromkeys(list(tasks.running), Load(0.01))
        wait_for("all at home", lambda: runs(federation) == {"north": 6, "south": 0}, 30)
        ledgers = [federation.folder / name / LEDGER for name in ("north", "south")]
        wait_for("equal ledgers", lambda: reconcile(*map(read_ledger, ledgers)) == [], 10)
        wait_for("south to know", lambda: south.status()["runs"] == [], 10)
        assert north.status()["lent"] == {}
        assert all(len(epoch) == 1 for epoch in federation.tasks["north"].running.values())


def test_a_partner_comes_in_while_others_run(federation: Federation) -> None:
    """Until then there is nobody to hand anything to."""
    federation.write({})
    with federation.start("north") as north:
        wait_for("its own tasks", lambda: len(federation.tasks["north"].running) == 6, 10)
        federation.write(PRICES)
        with federation.start("south"):
            north.renegotiate(federation.read("north"))
            wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
            # While something is on loan to it, it cannot be left out.
            federation.write({})
            north.renegotiate(federation.read("north"))
            heard = Event()

            def hear(manager: Manager, now: int) -> list[Command]:
                heard.set()
                return []

            north.tell(hear)
            assert heard.wait(20)
            assert list(north.participant.partners) == ["south"]
        text = federation.file("north").read_text().replace("scale = 10.0", "scale = 11.0")
        federation.file("north").write_text(text)
        with pytest.raises(InvalidArgumentError, match="cpu has changed; end the participant"):
            north.renegotiate(federation.read("north"))


def test_a_journal_does_not_grow_for_ever(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(participant, "MOST_RECORDS", 20)
    with federation.start("south"):
        with federation.start("north"):
            wait_for("load to move", lambda: runs(federation) == {"north": 3, "south": 3}, 20)
            tasks = federation.tasks["north"]
            journal = federation.folder / "north" / "contracts" / "journal"
            sizes: list[int] = []

            def has_shrunk() -> bool:
                load = Load(0.1 + len(sizes) % 7 / 1000)
                tasks.measured = dict.fromkeys(list(tasks.running), load)
                sizes.append(journal.stat().st_size)
                return any(later < earlier for earlier, later in pairwise(sizes))

            wait_for("the journal to be written anew", has_shrunk, 60)
        with federation.start("north") as north:
            wait_for("its own tasks", lambda: len(federation.tasks["north"].running) == 3, 10)
            assert len(north.status()["lent"]) == 3
            wait_for("equal ledgers", lambda: agree(federation), 10)


def test_how_it_is_is_written_for_its_operator(federation: Federation) -> None:
    with federation.start("north") as north:
        file = federation.folder / "north" / STATUS
        wait_for("its tasks", lambda: file.exists() and len(read_status(file)["runs"]) == 6, 10)
        found = read_status(file)
        assert (found["load"]["cpu"], found["overloaded"], found["failure"]) == (0.6, False, None)
        assert found.keys() == north.status().keys()


def read_status(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_bytes())
    return found
