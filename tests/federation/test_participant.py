"""Load managers as they run: real sockets, signatures, journals; tasks only say that they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.deployment import wait_for
from holdfast.errors import InvalidArgumentError
from holdfast.federation.accounts import LEDGER, read_ledger
from holdfast.federation.envelopes import Letter, seal
from holdfast.federation.participant import read_signer
from holdfast.protocol.contracts import Load, reconcile
from holdfast.protocol.contracts.messages import Beat
from holdfast.wire import WireError, act
from tests.federation.rig import Federation

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
            data = seal(signer, Letter("north", "south", terms, Beat()))
            with pytest.raises(WireError, match=word):
                act(address, None, "tell", data)
        with pytest.raises(WireError, match="knows tell"):
            act(address, None, "status", b"")


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
