from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import Dispute, Entry, Ledger, LoanId
from holdfast.federation.process.display import read_history
from holdfast.federation.process.records import LEDGER, read_ledger, write_ledger
from tests.federation.process.rig import Federation


def run(*words: object):
    return CliRunner().invoke(app, ["contracts", *map(str, words)])


@pytest.fixture
def north(tmp_path: Path) -> Path:
    prices = {("north", "south"): 'price = 6.0\nlow = 5.0\nduration = "10m"'}
    return Federation(tmp_path, {"north": 2, "south": 0}, prices).file("north")


def test_show(north: Path) -> None:
    said = run("show", north).stdout
    assert "5 to 6" in said
    assert "10m" in said
    assert "above 25%" in said


def test_advise(north: Path, tmp_path: Path) -> None:
    history = tmp_path / "loads"
    history.write_text("\n".join(["0.5"] * 95 + ["1.4"] * 5))
    said = run("advise", north, "--history", history, "--hops", 3).stdout
    assert "above capacity 5.0% of the time" in said
    assert "to 17.9" in said
    for text, word in (("0.5 x", "could not convert"), ("", "history")):
        history.write_text(text)
        assert word in str(run("advise", north, "--history", history).exception)
    with pytest.raises(InvalidArgumentError, match="file of loads"):
        read_history(tmp_path / "none")


def test_key(tmp_path: Path) -> None:
    made = run("key", tmp_path / "key")
    assert len(made.stdout.strip()) == 64
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert "new file" in str(run("key", tmp_path / "key").exception)


def test_ledgers_are_shown_given_away_and_compared(north: Path, tmp_path: Path) -> None:
    entries = [
        Entry(LoanId("north", 1, "a"), 0, "south", 6.0, 0.1),
        Entry(LoanId("north", 2, "b"), 0, "west", 6.0, 0.2),
    ]
    (tmp_path / "north").mkdir()
    disputes = [Dispute(entries[0].loan, "south", 0.6, 0.9)]
    write_ledger(tmp_path / "north" / LEDGER, Ledger("north", entries, {}, disputes))
    shown = run("ledger", north).stdout
    assert "-0.6" in shown
    assert "disputed: a, offer 1 of north: 0.6 here, 0.9 by south" in shown
    given = tmp_path / "for-south.json"
    assert run("ledger", north, "--partner", "south", "--output", given).exit_code == 0
    assert [each.seller for each in read_ledger(given)] == ["south"]
    theirs = tmp_path / "theirs.json"
    write_ledger(theirs, Ledger("south", entries[:1]))
    agreed = run("ledger", north, "--theirs", theirs)
    assert "north and south agree: 1 periods" in agreed.stdout
    write_ledger(theirs, Ledger("south", []))
    differs = run("ledger", north, "--theirs", theirs)
    assert differs.exit_code == 1
    assert "0.6 here, nothing there" in differs.stdout
    assert "go together" in str(run("ledger", north, "--partner", "south").exception)


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with pytest.raises(InvalidArgumentError, match="has run"):
        read_ledger(path)
    for text in (b"{}", b"\xff", b'{"participant": "x", "entries": 3}'):
        path.write_bytes(text)
        with pytest.raises(InvalidArgumentError, match="no ledger"):
            read_ledger(path)
    write_ledger(path, Ledger("west", [Entry(LoanId("north", 1, "a"), 0, "south", 6.0, 0.1)]))
    with pytest.raises(InvalidArgumentError, match="not of west"):
        read_ledger(path)
