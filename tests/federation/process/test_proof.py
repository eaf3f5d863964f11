"""Ledgers between processes, proven to somebody who trusts neither side."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from harness.waiting import wait_for
from holdfast.cli import app
from holdfast.federation.machine import Load, reconcile
from holdfast.federation.process.records import LEDGER, read_ledger
from tests.federation.process.rig import Federation

PAIR = ("north", "south")


def run(*words: object):
    return CliRunner().invoke(app, ["contracts", *map(str, words)])


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """Tasks that went out, were paid again, and came back; north was started again meanwhile."""
    prices = dict.fromkeys((PAIR, PAIR[::-1]), 'price = 6.0\nduration = "2s"')
    folder = tmp_path_factory.mktemp("proof")
    federation = Federation(folder, {"north": 6, "south": 0}, prices)
    with federation.start("south") as south:
        with federation.start("north"):
            wait_for("load to move", lambda: len(federation.tasks["south"].running) == 3, 20)
        with federation.start("north") as north:
            renewed = lambda: any(each.period for each in read_ledger(folder / "south" / LEDGER))  # noqa: E731
            wait_for("a period to be paid again", renewed, 30)
            for tasks in federation.tasks.values():
                tasks.measured = dict.fromkeys(list(tasks.running), Load(0.01))
            wait_for("all at home", lambda: len(federation.tasks["north"].running) == 6, 30)
            ledgers = [folder / name / LEDGER for name in PAIR]
            wait_for("equal ledgers", lambda: not reconcile(*map(read_ledger, ledgers)), 10)
            wait_for("south to know", lambda: south.status()["runs"] == [], 10)
            assert north.status()["disputes"] == south.status()["disputes"] == []
    for name, partner in (PAIR, PAIR[::-1]):
        said = run(
            "ledger", federation.file(name), "--partner", partner, "--letters",
            "--output", folder / f"{name}.json",
        )  # fmt: skip
        assert said.exit_code == 0, said.output
    return federation


@pytest.fixture
def keys(federation: Federation) -> list[str]:
    return [f"--key={name}={federation.signers[name].public.hex()}" for name in PAIR]


@pytest.mark.parametrize("name", PAIR)
def test_both_ledgers_are_borne_out_by_the_letters(
    federation: Federation, keys: list[str], name: str
) -> None:
    said = run("prove", federation.folder / f"{name}.json", *keys)
    assert said.exit_code == 0, said.output
    count = len(read_ledger(federation.folder / f"{name}.json"))
    assert count >= 4
    assert f"{count} periods are proven, 0 loans disputed, 0 problems" in said.output
    (other,) = {*PAIR} - {name}
    theirs = federation.folder / f"{other}.json"
    said = run("prove", federation.folder / f"{name}.json", *keys, "--theirs", theirs)
    assert "0 letters missing" in said.output, "of what one has lost on the way the other has all"


def changed(federation: Federation, name: str, change) -> Path:
    pages = msgspec.json.decode((federation.folder / f"{name}.json").read_bytes())
    change(pages)
    path = federation.folder / "changed.json"
    path.write_bytes(msgspec.json.encode(pages))
    return path


def dearer(pages) -> None:
    pages["entries"][0]["units"] *= 2


def shorter(pages) -> None:
    del pages["entries"][-1]


def longer(pages) -> None:
    last = pages["entries"][-1]
    pages["entries"].append({**last, "period": last["period"] + 1, "served": None})


def without_a_loan(pages) -> None:
    loan = pages["entries"][0]["loan"]
    pages["entries"] = [each for each in pages["entries"] if each["loan"] != loan]


def unsigned(pages) -> None:
    pages["letters"] = []


@pytest.mark.parametrize("change", [dearer, shorter, longer, without_a_loan, unsigned])
@pytest.mark.parametrize("name", PAIR)
def test_what_is_not_borne_out_is_found(
    federation: Federation, keys: list[str], name: str, change
) -> None:
    said = run("prove", changed(federation, name, change), *keys)
    assert said.exit_code == 1
    assert "problem: " in said.output


def test_a_letter_that_is_left_out_is_missed(federation: Federation, keys: list[str]) -> None:
    def cut(pages) -> None:
        del pages["letters"][1]

    said = run("prove", changed(federation, "north", cut), *keys)
    whole = run("prove", federation.folder / "north.json", *keys)
    assert said.output.count("not here: ") == whole.output.count("not here: ") + 1


def test_a_letter_that_was_changed_and_a_key_that_is_none_are_refused(
    federation: Federation, keys: list[str]
) -> None:
    signer = federation.signers["south"].public.hex()
    said = run("prove", federation.folder / "north.json", keys[1], f"--key=north={signer}")
    assert said.exit_code == 1
    assert "not signed by north" in said.output
    said = run("prove", federation.folder / "north.json", "--key=north=xyz")
    assert "give NAME=HEX" in str(said.exception)
