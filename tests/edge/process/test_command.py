"""The commands of an edge that runs, of two groups: `run`, `query add`, `query list`, `dismiss`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.edge import EdgeTrial
from holdfast.cli import app
from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import Expected, write_plant
from holdfast.errors import InvalidArgumentError

EVENTS = 300


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two groups of two children and a sensor each; one of the sensors ends after a while."""
    queries = {"count": {"aggregate": "count", "size": "1s"}}
    file = write_plant(tmp_path, children=4, sensors=2, groups=2, rate=500, queries=queries)
    text = file.read_text()
    file.write_text(text.replace("[sensors.s2]", f"[sensors.s2]\nevents = {EVENTS}"))
    return file


@pytest.fixture
def running(file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "holdfast", "edge", "run", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.stdout is not None
            process.stdout.read()


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["edge", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def wait(until: Callable[[], Any], seconds: float = 40.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
    return found


def test_an_edge_of_two_groups_is_run_asked_and_goes_on_without_a_sensor(
    file: Path, running: subprocess.Popen[str]
) -> None:
    layout = Layout.read(file)
    output = layout.path("windows.jsonl")

    def windows(query: str = "count") -> list[dict[str, Any]]:
        whole = output.read_text().rpartition("\n")[0] if output.exists() else ""
        found = [json.loads(line) for line in whole.splitlines()]
        return [each for each in found if each["query"] == query]

    wait(windows)
    assert command("query", "add", str(file), "peak", "max", "1s") == "peak: registered\n"
    listed = command("query", "list", str(file))
    assert [name in listed for name in ("count", "peak", "max", "1s")] == [True] * 4
    left = wait(lambda: _left(layout, "s2"))
    assert left["emitted"] == EVENTS
    by_then = len(windows())
    wait(lambda: len(windows()) > by_then + 2 and windows("peak"))
    with pytest.raises(InvalidArgumentError, match="takes no part"):
        command("dismiss", str(file), "s2")
    with Client(layout) as client:
        groups = client.ask("root", "status")["groups"]
    assert {name: (each["members"], each["sensors"]) for name, each in groups.items()} == {
        "g1": (["c2", "c4"], []),
        "g2": (["c1", "c3"], ["s1"]),
    }
    reports = [json.loads(_report(layout, name).read_text()) for name in layout.sensors]
    assert Expected(layout, reports).differences(windows()) == []
    assert {each["complete"] for each in windows()} == {True}
    assert command("dismiss", str(file), "s1") == "s1: nobody waits for it\n"
    running.send_signal(signal.SIGTERM)
    assert running.wait(20) == 0


def test_queries_are_added_with_options_and_removed(tmp_path: Path) -> None:
    queries = {"count": {"aggregate": "count", "size": "1s"}}
    with EdgeTrial(tmp_path, children=2, sensors=1, rate=500, queries=queries) as trial:
        file = str(trial.file)

        def windows(query: str) -> list[dict[str, Any]]:
            return [each for each in trial.windows() if each["query"] == query]

        with pytest.raises(InvalidArgumentError, match=r"sensors.s1 has no keys"):
            command("query", "add", file, "peak", "max", "1s", "--keyed")
        body = {"name": "peak", "aggregate": "max", "size": "1s", "keyed": True}
        with pytest.raises(InvalidArgumentError, match=r"sensors.s1 has no keys"):
            trial.client.ask("root", "add", body)
        shares = ("query", "add", file, "spread", "quantiles", "1s", "--shares")
        assert command(*shares, "0.1,0.9", "--k", "50") == "spread: registered\n"
        assert command(*shares, "0.1,0.9", "--k", "50") == "spread: registered\n"
        given = ["0.1,0.9", "--k", "50"]
        for other in (["0.5", "--k", "50"], ["0.1,0.9"], [*given, "--slide", "500ms"]):
            with pytest.raises(InvalidArgumentError, match="another one; choose another name"):
                command(*shares, *other)
        with pytest.raises(InvalidArgumentError, match="no list of numbers"):
            command(*shares, "a,b")
        with pytest.raises(InvalidArgumentError, match=r"lg_k: is for distinct"):
            command("query", "add", file, "other", "top_k", "1s", "--lg-k", "5")
        first = trial.wait(lambda: windows("spread"))
        assert len(first[0]["answer"]) == 2
        assert command("query", "remove", file, "spread") == "spread: removed\n"
        with pytest.raises(InvalidArgumentError, match="not registered; there are: count"):
            command("query", "remove", file, "spread")
        listed = command("query", "list", file)
        assert "count" in listed
        assert "spread" not in listed
        ended = len(windows("spread"))
        # The name may mean something else now, and a root that is started again remembers which.
        assert command("query", "add", file, "spread", "count", "1s") == "spread: registered\n"
        trial.fleet.kill("root")
        trial.fleet.start("root")
        assert trial.wait(lambda: windows("spread")[ended:])[0]["answer"] == 500
        shown = command("status", file)
        assert all(name in shown for name in ("c1", "c2", "alive"))
        assert json.loads(command("status", file, "root"))["paused"] == ""
        assert "is in" in command("query", "remove", file, "count")


def _report(layout: Layout, name: str) -> Path:
    return layout.path(f"{layout.name}-logs") / f"{name}.json"


def _left(layout: Layout, name: str) -> dict[str, Any] | None:
    """What a sensor says that has ended."""
    path = _report(layout, name)
    said = json.loads(path.read_text()) if path.exists() else {}
    return said if said.get("left") else None


def test_a_child_of_no_group_cannot_join(file: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"there is no 'g3'.*give one of g1, g2"):
        command("child", str(file), "c9", "--join", "127.0.0.1:7999", "--group", "g3")


def test_a_node_that_cannot_be_asked_is_said_at_once(file: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"there is no 'c9'"):
        command("status", str(file), "c9")
    with pytest.raises(InvalidArgumentError, match=r"'s1' is a sensor"):
        command("status", str(file), "s1")
