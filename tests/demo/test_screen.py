"""The live view, as text."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from holdfast.demo.answers import Answers
from holdfast.demo.errors import DemoError
from holdfast.demo.screen import CELLS, Screen, client_text, parties_table, strip
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.supervisor import Keeper
from holdfast.pipeline.topology import Party, PartyKind
from tests.demo.rig import Actor, answer, told


def keeper(name: str, status: dict[str, Any] | None) -> Keeper:
    party = Party(name, PartyKind.REPLICA, "clean", "127.0.0.1:7101", "here")
    # The table only sees whether there is a process.
    return Keeper(party, [], Path(), cast(Any, object()), status=status)


def rows(*keepers: Keeper) -> list[list[str]]:
    """The cells of the table that are not empty."""
    console = Console(file=io.StringIO(), width=80)
    console.print(parties_table(keepers))
    lines = cast(io.StringIO, console.file).getvalue().splitlines()
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    return [each for each in cells if each[0] in {keeper.party.name for keeper in keepers}]


def test_a_replica_a_source_and_one_that_starts() -> None:
    replica = {
        "ready": True,
        "state": "UP_FAILURE",
        "stable_rows": 12345,
        "tentative_rows": 67,
        "lag_seconds": 5.25,
        "links": {"north": True, "south": False},
    }
    source = {"ready": True, "state": "STABLE", "stable_rows": 5, "lag_seconds": 1e9}
    assert rows(
        keeper("clean/1", replica), keeper("north", source), keeper("sums/1", {"ready": False})
    ) == [
        ["clean/1", "tentative", "12,345", "67", "5.2 s", "south"],
        ["north", "stable", "5"],
        ["sums/1", "starting Spark"],
    ]


def test_the_client_and_its_stream() -> None:
    answers = Answers()
    answers.take(0, told(Kind.INSERT, 1, *[answer(1)] * 1234))
    answers.take(0, told(Kind.TENTATIVE, 2, answer(2), answer(2)))
    answers.take(0, told(Kind.UNDO, 1))
    answers.take(0, told(Kind.INSERT, 2))
    answers.take(0, told(Kind.REC_DONE, 2))
    assert client_text(answers).plain == ("client: 1,234 final answers, 2 tentative, 2 withdrawn")
    marks = strip(answers)
    assert marks.plain == "■■↶■✓"
    assert [str(span.style) for span in marks.spans] == [
        "green",
        "yellow",
        "bold red",
        "green",
        "bold green",
    ]


def test_only_the_newest_of_a_long_stream_is_in_view() -> None:
    answers = Answers()
    answers.take(0, told(Kind.UNDO, 1))
    for _ in range(CELLS):
        answers.take(0, told(Kind.INSERT, 2))
    assert strip(answers).plain == "■" * CELLS


def test_where_there_is_no_terminal_lines_are_printed(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    with Screen(console, cast(Any, Actor(tmp_path))) as screen:
        screen.say("it begins", "green")
        screen.show()
        screen.must("nothing", lambda: True, 0)
    assert cast(io.StringIO, console.file).getvalue() == "  0.0 s  it begins\n"


def test_on_a_terminal_the_page_has_all_of_it(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    actor = Actor(tmp_path)
    actor.keepers["clean/1"] = keeper("clean/1", None)
    with Screen(console, cast(Any, actor)) as screen:
        actor.open_sources()
        screen.say("it begins")
    text = cast(io.StringIO, console.file).getvalue()
    for expected in ("clean/1", "starting", "1 final", "■", "it begins"):
        assert expected in text


def test_what_does_not_come_is_named(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=80)
    with Screen(console, cast(Any, Actor(tmp_path))) as screen:
        assert not screen.wait(lambda: False, 0)
        with pytest.raises(DemoError, match=f"waited 0 s for rain; the logs are in {tmp_path}"):
            screen.must("rain", lambda: False, 0)
