"""The table of `holdfast run`, as text."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest
from rich.console import Console

from holdfast.pipeline.process import display as board
from holdfast.pipeline.process.display import run_topology, status_table
from holdfast.pipeline.process.supervisor import Keeper, Supervisor
from holdfast.pipeline.topology import Party, PartyKind
from tests.pipeline.sources.processes import save
from tests.pipeline.sources.rig import alone, wait_for

STATUS: dict[str, Any] = {
    "party": "clean/1",
    "ready": True,
    "state": "STABLE",
    "stable_rows": 12345,
    "tentative_rows": 67,
    "lag_seconds": 1.25,
    "delay_new_seconds": 0.5,
    "buckets_buffered": 4,
    "batch_seconds": 0.75,
    "links": {"readings": True, "clean/2": True},
}


def keeper(status: dict[str, Any] | None, *, running: bool = True, **facts: Any) -> Keeper:
    party = Party("clean/1", PartyKind.REPLICA, "clean", "127.0.0.1:7101", "here")
    # The table only sees whether there is a process.
    process = cast(Any, object()) if running else None
    return Keeper(party, [], Path(), process, starts=1, status=status, **facts)


def row(keeper: Keeper) -> list[str]:
    """The one line of the table, cell by cell."""
    console = Console(file=io.StringIO(), width=200)
    console.print(status_table("fleet", [keeper]))
    said = cast(io.StringIO, console.file).getvalue()
    assert "fleet" in said
    [line] = [line for line in said.splitlines() if "clean/1" in line]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_a_party_that_starts() -> None:
    assert row(keeper(None)) == ["clean/1", "starting", *[""] * 7, "1"]


def test_a_replica_whose_spark_starts() -> None:
    assert row(keeper(STATUS | {"ready": False}))[1] == "starting Spark"


def test_a_sink_says_nothing_of_itself() -> None:
    sink = keeper(None)
    sink.party = Party("clean/1", PartyKind.SINK, "archive", None, "here")
    assert row(sink)[1] == "running"


def test_a_party_that_has_ended() -> None:
    ended = keeper(None, running=False, code=-9, due=time.monotonic() + 4.9)
    assert row(ended)[1] == "ended (-9), again in 5 s"
    ended.due = 0.0
    assert row(ended)[1] == "ended (-9), again in 0 s"


def test_a_stable_party() -> None:
    assert row(keeper(STATUS)) == [
        "clean/1",
        "stable",
        "12,345",
        "67",
        "1.2 s",
        "0.5 s",
        "4",
        "0.8 s",
        "2 of 2",
        "1",
    ]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("UP_FAILURE", "tentative"),
        ("STABILIZATION", "correcting"),
        ("FAILURE", "silent"),
        ("SOMETHING_NEW", "SOMETHING_NEW"),
    ],
)
def test_each_state_has_its_word(state: str, word: str) -> None:
    assert row(keeper(STATUS | {"state": state}))[1] == word


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"waits_for": ["clean/4"]}, "waits for clean/4"),
        ({"quarantined": ["clean/3", "clean/4"]}, "in quarantine: clean/3, clean/4"),
        ({"gave_up": {"clean": "a against b"}}, "stopped, for replicas disagree: clean"),
    ],
)
def test_what_was_found_out_about_replicas_is_told(found: dict[str, Any], said: str) -> None:
    assert row(keeper(STATUS | found))[1] == f"stable; {said}"


def test_links_that_are_down_are_named() -> None:
    links = {"readings": True, "others": False, "clean/2": False}
    assert row(keeper(STATUS | {"links": links}))[8] == "1 of 3, not others, clean/2"


def test_before_its_first_bucket_a_party_is_not_behind() -> None:
    cells = row(keeper(STATUS | {"lag_seconds": 1.7e9, "delay_new_seconds": 1.7e9}))
    assert cells[4:6] == ["", ""]


def test_a_source_says_less() -> None:
    said = {"state": "STABLE", "stable_rows": 5, "lag_seconds": 0.0}
    assert row(keeper(said))[1:9] == ["stable", "5", "", "0.0 s", "", "", "", ""]


class Run:
    """`holdfast run` of one source and one sink, with a script in the place of each."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, looks: int, **console: Any
    ) -> None:
        monkeypatch.setattr(board, "EVERY", 0.0)
        topology = alone(folder)
        self.supervisors: list[Supervisor] = []
        ending = Event()

        def ask(supervisor: Supervisor, keeper: Keeper) -> None:
            """Nobody answers."""

        def look(supervisor: Supervisor) -> None:
            if supervisor not in self.supervisors:
                self.supervisors.append(supervisor)
                for each in supervisor.keepers.values():
                    each.command = [sys.executable, "-c", script]
            original(supervisor)
            self.looks += 1
            if self.looks == looks:
                ending.set()

        self.looks = 0
        original = Supervisor.look
        monkeypatch.setattr(Supervisor, "_ask", ask)
        monkeypatch.setattr(Supervisor, "look", look)
        file = io.StringIO()
        run_topology(save(topology), Console(file=file, width=120, **console), ending=ending)
        self.said = file.getvalue()


def test_where_there_is_no_terminal_changes_are_printed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(tmp_path, monkeypatch, "import time; time.sleep(300)", looks=20)
    assert run.said.splitlines() == [
        "running readings, keeper",
        "readings: starting",
        "keeper: running",
        "ending all parties",
    ]
    [supervisor] = run.supervisors
    assert all(each.process is None for each in supervisor.keepers.values())


def test_an_end_is_printed_once_though_its_countdown_changes(tmp_path: Path) -> None:
    topology = alone(tmp_path)
    supervisor = Supervisor(topology, save(topology))
    console = Console(file=io.StringIO(), width=120)
    each = supervisor.keepers["readings"]
    supervisor.keepers = {"readings": each}
    seen: dict[str, str] = {}
    each.code = 3
    for wait in (4.9, 3.9, 0.0):
        each.due = time.monotonic() + wait
        board._print_changes(supervisor, console, seen)
    each.process = cast(Any, object())
    board._print_changes(supervisor, console, seen)
    each.status = STATUS
    for _ in range(3):
        board._print_changes(supervisor, console, seen)
    each.process = None
    each.due = 0.0
    board._print_changes(supervisor, console, seen)
    assert cast(io.StringIO, console.file).getvalue().splitlines() == [
        "readings: ended (3), again in 5 s",
        "readings: starting",
        "readings: stable",
        "readings: ended (3), again in 0 s",
    ]


def test_on_a_terminal_the_table_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path, monkeypatch, "import time; time.sleep(300)", looks=3, force_terminal=True)
    for expected in ("readings", "starting", "Ctrl-C", "ending all parties"):
        assert expected in run.said
    [supervisor] = run.supervisors
    wait_for(lambda: all(each.process is None for each in supervisor.keepers.values()))


def test_ctrl_c_ends_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    def interrupt(supervisor: Supervisor) -> None:
        for each in supervisor.keepers.values():
            each.command = [sys.executable, "-c", "import time; time.sleep(300)"]
            each.look(time.monotonic())
            started.append(each.process)
        raise KeyboardInterrupt

    monkeypatch.setattr(Supervisor, "look", interrupt)
    file = io.StringIO()
    run_topology(save(alone(tmp_path)), Console(file=file, width=120))
    assert file.getvalue().splitlines()[-1] == "ending all parties"
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
