"""The output of a root: a disk that is full, a second root, a long file, numbers JSON has not."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.edge import EdgeTrial
from holdfast.edge.machine.messages import (
    PaneClosed,
    PanePartial,
    PaneTaken,
    Register,
    Roster,
    SensorHello,
)
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.frames import Answer, Ask
from holdfast.edge.process.root_process import LineKeeper, RootNode
from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.groups import Claim

QUERIES = {
    "count": {"aggregate": "count", "size": "100ms"},
    "sum": {"aggregate": "sum", "size": "200ms", "slide": "100ms"},
}


def test_a_root_without_room_says_so_and_loses_no_window(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, children=2, sensors=1, rate=500, queries=QUERIES) as trial:
        root = trial.fleet.processes["root"].pid
        output = trial.layout.path("windows.jsonl")
        # Files of this process cannot grow beyond this, as on a disk that is full.
        limit = output.stat().st_size + 1_000
        resource.prlimit(root, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        trial.wait(lambda: trial.status("root")["paused"])
        count = trial.status("root")["windows"]
        with pytest.raises(InvalidArgumentError, match="make room"):
            trial.client.ask("root", "dismiss", {"sensor": "s1"})
        behind = trial.reports()[0]["newest"] + 3_000_000
        trial.wait(lambda: trial.reports()[0]["newest"] > behind)
        assert trial.status("root")["windows"] == count
        assert output.read_bytes().endswith(b"\n")
        unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
        resource.prlimit(root, resource.RLIMIT_FSIZE, unlimited)
        trial.wait(lambda: not trial.status("root")["paused"])
        trial.wait_for_window(behind + 1_000_000)
        windows = trial.check()
        assert {each["complete"] for each in windows} == {True}
        said = trial.fleet.log("root").read_text()
        assert said.count("ERROR root: cannot write windows down") == 1
        assert "WARNING root: can write again" in said
        assert "connection with" not in said


class Counting:
    """Keeps windows in memory."""

    position = 0

    def __init__(self) -> None:
        self.calls: list[list[dict[str, Any]]] = []

    def last(self, position: int) -> dict[str, int]:
        return {}

    def keep(self, windows: list[dict[str, Any]]) -> None:
        self.calls.append(windows)


def test_all_that_comes_in_one_turn_is_written_at_once_before_it_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a silence, and of a file of long ago, there are thousands of panes."""
    queries = {"count": {"aggregate": "count", "size": "1s"}}
    layout = Layout.read(write_plant(tmp_path, children=1, sensors=1, queries=queries))
    keeper = Counting()
    node = RootNode(layout, keeper, tmp_path / "memory")
    arriving: list[tuple[str, Any]] = []
    sent: list[tuple[int, Any]] = []

    def poll(timeout: float) -> None:
        while arriving:
            node.runner.received(*arriving.pop(0))

    monkeypatch.setattr(node.hub, "poll", poll)
    monkeypatch.setattr(
        node.hub, "send", lambda to, message: sent.append((len(keeper.calls), message))
    )
    try:
        now = node.clock()
        start = now - now % 1_000_000
        arriving += [
            ("c1", Register("c1", "child", layout.children["c1"].address, 1)),
            ("c1", SensorHello("s1~1", start, clock=now)),
        ]
        node.step(0.0)
        roster = node.machine.groups["edge"].roster.version
        state = PanePartial(0, 1, start, roster, True, 0, (Claim(0, 1, "c1"),))
        arriving += [
            ("c1", PaneClosed("edge", "count", start + second * 1_000_000, (state,)))
            for second in range(1_000)
        ]
        node.step(0.0)
        assert [len(windows) for windows in keeper.calls] == [1_000]
        acknowledged = [(calls, each) for calls, each in sent if isinstance(each, PaneTaken)]
        assert len(acknowledged) == 1_000
        assert {calls for calls, _ in acknowledged} == {1}
        arriving.append(("asker", Ask(1, "dismiss", b'{"sensor": "s1"}')))
        node.step(0.0)
        answers = [each for _, each in sent if isinstance(each, Answer)]
        assert [each.error for each in answers] == [""]
        assert any(isinstance(each, Roster) for _, each in sent[-2:])
    finally:
        node.close()


def test_a_second_root_changes_nothing(tmp_path: Path) -> None:
    with EdgeTrial(tmp_path, children=1, sensors=1, rate=100) as trial:
        output = trial.layout.path("windows.jsonl")
        command = [sys.executable, "-m", "holdfast", "edge", "root", str(trial.file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert f"{output}: another root appends to it; end that one" in ended.stderr
        trial.wait_for_window(trial.through() + 1)
        trial.check()


def test_a_file_that_another_root_has_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'{"query": "a", "start": 1}\n{"que')
    keeper = LineKeeper(path)
    with pytest.raises(InvalidArgumentError, match="another root"):
        LineKeeper(path)
    assert path.read_bytes().endswith(b'{"que')
    assert keeper.last(0) == {"a": 1}
    assert path.read_bytes() == b'{"query": "a", "start": 1}\n'


def test_only_what_the_memory_does_not_know_is_read_at_a_start(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    known = b"no window, and not looked at\n" * 1_000
    path.write_bytes(known + b'{"query": "a", "start": 5}\n{"query": "b", "sta')
    keeper = LineKeeper(path)
    assert keeper.last(len(known)) == {"a": 5}
    keeper.keep([{"query": "b", "start": 6}])
    assert (
        path.read_bytes()[len(known) :]
        == b'{"query": "a", "start": 5}\n{"query": "b", "start": 6}\n'
    )
    assert keeper.position == path.stat().st_size
    # No line ends there: it is another file, and all of it is read.
    with pytest.raises(StoreCorruptError, match="no window"):
        keeper.last(len(known) + 3)
    with pytest.raises(StoreCorruptError, match="no window"):
        keeper.last(1 << 30)


def test_a_file_that_is_moved_away_is_begun_anew(tmp_path: Path) -> None:
    path, moved = tmp_path / "windows.jsonl", tmp_path / "windows.jsonl.1"
    keeper = LineKeeper(path)
    keeper.keep([{"query": "a", "start": 1}])
    path.rename(moved)
    keeper.keep([{"query": "a", "start": 2}])
    assert moved.read_text() == '{"query": "a", "start": 1}\n'
    assert path.read_text() == '{"query": "a", "start": 2}\n'
    assert keeper.position == path.stat().st_size
    with pytest.raises(InvalidArgumentError, match="another root"):
        LineKeeper(path)
    path.unlink()
    keeper.keep([{"query": "a", "start": 3}])
    assert keeper.last(moved.stat().st_size * 2) == {"a": 3}


def test_the_name_of_a_file_that_is_begun_anew_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    keeper = LineKeeper(tmp_path / "windows.jsonl")
    monkeypatch.setattr("holdfast.edge.process.root_process.sync", flushed.append)
    keeper.keep([{"query": "a", "start": 1}])
    assert flushed == []
    (tmp_path / "windows.jsonl").rename(tmp_path / "windows.jsonl.1")
    keeper.keep([{"query": "a", "start": 2}])
    assert flushed == [tmp_path]


def test_half_a_line_is_not_left_in_a_file_that_is_moved_away(tmp_path: Path) -> None:
    path, moved = tmp_path / "windows.jsonl", tmp_path / "windows.jsonl.1"
    keeper = LineKeeper(path)
    keeper.keep([{"query": "a", "start": 1}])
    keeper._torn = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"query": "a", "sta')
    path.rename(moved)
    keeper.keep([{"query": "a", "start": 2}])
    assert moved.read_text() == '{"query": "a", "start": 1}\n'
    assert path.read_text() == '{"query": "a", "start": 2}\n'


PRINTS = """
import resource, sys
from holdfast.edge.process.frames import Answer, Ask
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.root_process import LineKeeper, RootNode
keeper, windows = LineKeeper(None, sys.stdout.fileno()), [{"start": at} for at in range(5)]
for size in (5, 20, 20, resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        keeper.keep(windows)
    except OSError:
        sys.stderr.write("full ")
keeper.keep([{"start": 5}])
"""


def test_windows_are_printed_once_though_there_is_no_room_for_a_while(tmp_path: Path) -> None:
    path = tmp_path / "printed"
    with path.open("wb") as out:
        command = [sys.executable, "-c", PRINTS]
        ended = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=True, timeout=60)
    assert ended.stderr == b"full full full "
    assert path.read_text() == "".join(f'{{"start": {at}}}\n' for at in range(6))


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (float("inf"), '"Infinity"'),
        ({"a": float("-inf"), "b": 1.5}, '{"a": "-Infinity", "b": 1.5}'),
        ([float("nan"), 2.0], '["NaN", 2.0]'),
        (1e308, "1e+308"),
    ],
)
def test_lines_are_json_whatever_the_numbers(tmp_path: Path, answer: Any, written: str) -> None:
    path = tmp_path / "windows.jsonl"
    LineKeeper(path).keep([{"query": "a", "start": 1, "answer": answer}])
    assert path.read_text() == f'{{"query": "a", "start": 1, "answer": {written}}}\n'

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(path.read_text(), parse_constant=refuse)
