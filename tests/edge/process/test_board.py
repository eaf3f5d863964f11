"""The display of an edge: it is short, and whatever becomes of it the edge runs on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.edge.machine import Root
from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.display import _notes, refusals, window_text
from holdfast.edge.process.root_process import KEPT_BYTES, RootNode

WINDOW = {
    "query": "load",
    "start": 0,
    "end": 1,
    "answer": 5,
    "complete": True,
    "missing": 0,
    "at": 3_000,
    "newest": 1_000,
}


@pytest.mark.parametrize(
    "answer",
    [
        {f"key {number}": number for number in range(40_000)},
        {"k" * 100_000: 1},
        list(range(100_000)),
        "x" * 100_000,
    ],
)
def test_a_window_is_a_line_however_much_is_in_it(answer: Any) -> None:
    text = window_text({**WINDOW, "answer": answer})
    assert "\n" not in text
    assert len(text) < 400
    assert text.endswith("2 ms after its last event")


def test_a_window_that_lacks_something_says_so() -> None:
    text = window_text({**WINDOW, "complete": False, "missing": 7, "answer": {"a": 1}})
    assert "{'a': 1}, not complete (7 missing)" in text


def test_refusals_are_summed_over_the_children() -> None:
    statuses = {
        "root": {"role": "root"},
        "c1": {"refused": {"s1": {"no key": 2, "pane closed": 1}}},
        "c2": {"refused": {"s1": {"no key": 3}}},
        "c3": None,
    }
    assert refusals(statuses) == [
        "s1: 5 events refused: no key",
        "s1: 1 events refused: pane closed",
    ]


def test_whom_windows_wait_for_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    layout = Layout.read(write_plant(tmp_path, children=1, sensors=1))
    node = RootNode(layout, Nowhere(), None)
    try:
        unheard, lacking = ["s1"], ["c1"]
        monkeypatch.setattr(Root, "unheard", lambda *_: tuple(unheard))
        monkeypatch.setattr(Root, "lacking", property(lambda _: tuple(lacking)))
        now = 2_000_000_000
        monkeypatch.setattr(node, "clock", lambda: now)
        with caplog.at_level("INFO", logger="holdfast.edge"):
            node.step(0.0)
            assert len(_notes({"root": node.status()})) == 1, "children may be late for a moment"
            for _ in range(2):
                now += 15_000_000
                node.step(0.0)
            assert _notes({"root": node.status()}) == [
                "sensor s1 is not heard, and windows wait for it; start it again, or do without "
                "it: holdfast edge dismiss FILE s1",
                "child c1 does not send what it has, and windows wait for it; see whether it "
                "reaches the root, or end it: another one takes its place",
            ]
            unheard.clear()
            lacking.clear()
            now += 1_000_000
            node.step(0.0)
        assert _notes({"root": node.status()}) == []
        said = [line for line in caplog.messages if line.startswith("root: ")]
        assert ["s1 is not heard" in said[0], "c1 does not send" in said[1]] == [True, True]
        assert said[2:] == ["root: windows stand still no longer"]
    finally:
        node.close()


class Nowhere:
    """Keeps windows nowhere."""

    position = 0

    def last(self, position: int) -> dict[str, int]:
        return {}

    def keep(self, windows: list[dict[str, Any]]) -> None: ...


def test_a_root_holds_windows_by_their_bytes_and_answers_in_pages(tmp_path: Path) -> None:
    layout = Layout.read(write_plant(tmp_path, children=1, sensors=0))
    node = RootNode(layout, Nowhere(), None)
    try:
        answer = {f"{number:0>100}": number for number in range(20_000)}
        for number in range(20):
            node._pending = [{**WINDOW, "start": number, "answer": answer}]
            node._publish()
        assert node.count == 20
        assert 1 < len(node._recent) < 20
        assert sum(map(len, node._recent)) <= KEPT_BYTES
        first = node.count - len(node._recent)
        page = node._show({"first": 0})
        assert [each["start"] for each in page["windows"]] == [first]
        assert page["next"] == first + 1
        assert page["windows"][0]["answer"] == answer
        short = node._show({"first": 0, "keys": 5})
        assert short["next"] == 20
        assert {(each["keys"], len(each["answer"])) for each in short["windows"]} == {(20_000, 5)}
        assert len(json.dumps(short)) < 20_000
        assert node._show({"first": 20}) == {"next": 20, "windows": []}
    finally:
        node.close()


def test_an_edge_runs_on_when_nobody_reads_what_it_shows(tmp_path: Path) -> None:
    queries = {"count": {"aggregate": "count", "size": "500ms"}}
    file = write_plant(tmp_path, children=1, sensors=1, rate=100, queries=queries)
    output = tmp_path / "windows.jsonl"
    command = [sys.executable, "-m", "holdfast", "edge", "run", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            running.stdout.close()
            deadline = time.monotonic() + 60
            while not output.exists() or output.read_bytes().count(b"\n") < 10:
                assert running.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0


def test_an_edge_runs_on_when_a_node_cannot_be_started_again(tmp_path: Path) -> None:
    queries = {"count": {"aggregate": "count", "size": "500ms"}}
    file = write_plant(tmp_path, children=2, sensors=1, rate=100, queries=queries)
    layout = Layout.read(file)
    log = tmp_path / f"{layout.name}-logs" / "c1.log"
    output = tmp_path / "windows.jsonl"
    errors = tmp_path / "errors"

    def wait(until: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 60
        while not until():
            assert running.poll() is None, "the supervisor has ended"
            assert time.monotonic() < deadline, errors.read_text()
            time.sleep(0.05)

    command = [sys.executable, "-m", "holdfast", "edge", "run", str(file)]
    with (
        errors.open("wb") as said,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said) as running,
        Client(layout) as client,
    ):
        try:
            wait(lambda: output.exists() and output.read_bytes().count(b"\n") > 2)
            child = client.ask("c1", "status", patience=15.0)["pid"]
            # There is no room for its log, so to say.
            log.rename(tmp_path / "c1.log")
            log.mkdir()
            os.kill(child, signal.SIGKILL)
            wait(lambda: "cannot be started again" in errors.read_text())
            lines = output.read_bytes().count(b"\n")
            wait(lambda: output.read_bytes().count(b"\n") > lines + 4)
            log.rmdir()
            wait(lambda: log.exists() and "listens at" in log.read_text())
        finally:
            running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
