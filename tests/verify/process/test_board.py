from __future__ import annotations

import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from harness.verified.plain import ThreadLauncher, write_energy
from holdfast.verify.machine import Quorum
from holdfast.verify.process.config import Config, Pool
from holdfast.verify.process.coordinator import Coordinator
from holdfast.verify.process.display import Board, _read_trace, stage_table
from holdfast.verify.process.placement import plan_placement
from holdfast.verify.process.submission import submit

LIE = Lie(2, "hourly", Wrong.VALUE)


def run(folder: Path, console: Console) -> str:
    """What the table shows in the end."""
    file, _ = write_energy(folder / "job", 1)
    config = Config(
        storage=str(folder / "storage"),
        work=str(folder / "work"),
        linger=60.0,
        pools=tuple(Pool(name=f"p{n}", hosts=(f"h{n}",)) for n in range(1, 5)),
    )
    submission = submit(file, config)
    placement = plan_placement(Quorum(config.model).numbers, config.pools, shared=False)
    # Whoever is faster, all have something to say of the stage.
    holds = [Hold(n, "hourly", Seen(m, "hourly")) for n in (1, 2, 3, 4) for m in (1, 2, 3, 4)]
    launcher = ThreadLauncher(submission, [LIE], holds)
    with (
        Board(console) as board,
        Coordinator(submission, placement, launcher, folder / "out") as coordinator,
    ):
        coordinator.run(board.show)
        screen = Console(file=StringIO(), width=120)
        screen.print(stage_table(coordinator))
        return screen.file.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_shows_a_table(tmp_path: Path) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=400)
    table = run(tmp_path, console)
    assert "replica 4" in table
    (row,) = [line for line in table.splitlines() if "hourly" in line]
    assert "2 of 2" in row
    assert "outvoted" in row
    assert row.count("agrees") == 3
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Ctrl-C gives the job up" in shown


def test_elsewhere_there_are_lines_each_once(tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=200)
    run(tmp_path, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(set(lines)) == len(lines)
    assert "replica 3: started in p3" in lines
    assert "stage bills: agreed upon in run 0.0" in lines
    assert any(line.startswith("replica 2, stage hourly: outvoted") for line in lines)


STARTS = b'{"stage": "hourly", "event": "starts"}\n'


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"7",
        b"null",
        b'{"stage": [], "event": "made"}',
        b'{"stage": "hourly", "event": {}}',
        b'{"stage": "hourly", "event": "\\u001b[2J"}',
        b'{"stage": "hourly", "event": "made"',
        b"\xff\xfe",
        b'{"stage": "\xff", "event": "made"}',
        b'{"x": ' + b"[" * 100_000,
        b"[" * 100_000,
    ],
)
def test_a_replica_may_write_anything_to_its_trace(tmp_path: Path, line: bytes) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(STARTS + line + b"\n" + STARTS.replace(b"hourly", b"bills") + line)
    assert _read_trace(trace) == {"hourly": "starts", "bills": "starts"}


def make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**42)


@pytest.mark.parametrize(
    "make",
    [make_sparse, os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)],
    ids=["huge", "pipe", "folder", "loop"],
)
def test_a_trace_that_is_no_file_is_as_none(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "trace.jsonl")
    assert _read_trace(tmp_path / "trace.jsonl") == {}


def test_of_a_long_trace_the_end_is_read(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(STARTS * 50_000 + b'{"stage": "bills", "event": "made"}\n')
    assert _read_trace(trace) == {"hourly": "starts", "bills": "made"}
