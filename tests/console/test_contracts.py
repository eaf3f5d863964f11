"""A participant on the page: real load managers, whose files the panel reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from harness.waiting import wait_for
from holdfast.console.contracts import contract_tables, participant_panels
from holdfast.console.panels import Mark, Moment, Table
from holdfast.errors import HoldfastError
from holdfast.federation.process.records import (
    LEDGER,
    STANDING,
    Standing,
    read_ledger,
    read_standing,
)
from holdfast.federation.process.settings import Participant
from tests.federation.process.rig import Federation

PRICES = {("north", "south"): "price = 6.0", ("south", "north"): "price = 6.0\nlow = 5.0"}


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """What is above three tenths of north pays to be handed over."""
    return Federation(tmp_path, {"north": 6, "south": 0}, PRICES)


def asked(federation: Federation, name: str) -> Sequence[Table]:
    [panel] = participant_panels([federation.file(name)])
    assert panel.title == f"Contracts of {name}"
    found = panel.ask()
    assert not isinstance(found, Table)
    return found


def moved(federation: Federation, name: str) -> int:
    """How many tasks are with a partner, as the page says."""
    try:
        moves = asked(federation, name)[1]
    except HoldfastError:
        return 0
    return sum(row[3] == Mark("moved", "stable") for row in moves.rows)


def test_contracts_moves_and_balances_of_both_sides(federation: Federation) -> None:
    with federation.start("north"), federation.start("south"):
        names = ("north", "south")
        wait_for("moves", lambda: all(moved(federation, each) == 3 for each in names), 30)
        for name in names:
            contracts, moves, balances = asked(federation, name)
            sign = -1 if name == "north" else 1
            prices = {(row[0], row[1]): row[2:] for row in contracts.rows}
            assert prices["north", "south"] == ["6", "for ever", 0.3, 1.8]
            assert prices["south", "north"] == ["5 to 6", "for ever", 0, 0]
            for task, buyer, seller, _, since, periods, paid in moves.rows:
                assert (buyer, seller, periods, paid) == ("north", "south", 1, 0.6)
                assert str(task).startswith("north")
                assert isinstance(since, Moment)
            [[partner, state, *_, balance]] = balances.rows
            assert partner == ({"north", "south"} - {name}).pop()
            assert state == Mark("answers", "stable")
            assert balance == pytest.approx(sign * 1.8)
            assert "30% of the cpu in use, 90% wanted at most" in balances.note


def test_a_partner_that_is_gone_has_nothing_any_more(federation: Federation) -> None:
    with federation.start("north"):
        with federation.start("south"):
            wait_for("three moves", lambda: moved(federation, "north") == 3, 30)

        # What a partner has not served is not paid, and so not in the ledger.
        def is_home() -> bool:
            _, moves, balances = asked(federation, "north")
            is_over = all(row[3] == Mark("over", "silent") for row in moves.rows)
            return is_over and "60% of the cpu in use" in balances.note

        wait_for("tasks at home", is_home, 30)
        assert asked(federation, "north")[2].rows[0][1] == Mark("no answer", "gone")


def test_one_that_does_not_run_is_told(federation: Federation) -> None:
    with pytest.raises(HoldfastError, match="it is there when `holdfast participant` has run"):
        asked(federation, "north")
    with federation.start("north"):
        folder = federation.folder / "north"
        wait_for("its files", lambda: all((folder / n).exists() for n in (STANDING, LEDGER)), 30)
    standing = read_standing(folder / STANDING)
    assert isinstance(standing, Standing)
    participant = Participant.read(federation.file("north"))
    tables = contract_tables(
        participant, standing, read_ledger(folder / LEDGER), standing.at / 1e6 + 60
    )
    assert tables[1].note == "nothing is moved just now"
    assert tables[2].note == (
        "north has said nothing for 60 s; see whether `holdfast participant` runs"
    )


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / STANDING
    path.write_bytes(msgspec.json.encode({"participant": "north"}))
    with pytest.raises(HoldfastError, match="of this version"):
        read_standing(path)
