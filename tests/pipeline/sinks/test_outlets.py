"""Sinks at work: what they acknowledge, how they stop and fail."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from rich.console import Console as Screen

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader
from holdfast.pipeline.process.source import Driver
from holdfast.pipeline.sinks import open_sink, outlets
from holdfast.pipeline.topology import Callback, Console, Parquet, Sink, Topology
from tests.pipeline.sources.publisher import Publisher
from tests.pipeline.sources.rig import alone, wait_for
from tests.transport.parties import threads


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING", 0.05)
    monkeypatch.setattr(outlets, "SILENCE", 0.2)
    monkeypatch.setattr(outlets, "LOOK", 0.02)


def with_sink(folder: Path, output: Any, **settings: Any) -> Topology:
    return alone(folder, sinks={"sink": Sink(stream="readings", sink=output, **settings)})


@contextmanager
def publishing(topology: Topology, **settings: Any) -> Iterator[Publisher]:
    address = topology.streams["readings"].address
    with Publisher(address, topology.readers("readings"), **settings) as publisher:
        yield publisher


@contextmanager
def running(topology: Topology, **settings: Any) -> Iterator[Driver[Any]]:
    before = set(threads())
    driver = open_sink(topology, "sink", **settings)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()
    wait_for(lambda: set(threads()) <= before)


def stored(topology: Topology) -> list[float]:
    folder = topology.path("out")
    if not any(folder.glob("*.parquet")):
        return []
    return list(pa.parquet.read_table(folder)["value"].to_pylist())


def test_what_is_stored_is_acknowledged(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Parquet(path="out"))
    with publishing(topology) as publisher, running(topology) as driver:
        publisher.publish(0, 10, [1.0, 2.0])
        # What is tentative never gets into a store.
        publisher.preview(10, 20, [9.0])
        wait_for(lambda: publisher.kept_from == 10)
        assert stored(topology) == [1.0, 2.0]
        publisher.publish(10, 20, [3.0])
        publisher.publish(20, 30, [])
        wait_for(lambda: publisher.kept_from == 30)
        assert stored(topology) == [1.0, 2.0, 3.0]
        assert driver.counts["rows"] == 3
        assert driver.failure is None


def test_a_sink_goes_on_where_it_was(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Parquet(path="out"))
    with publishing(topology) as publisher:
        for start in range(0, 50, 10):
            publisher.publish(start, start + 10, [start])
            with running(topology):
                wait_for(lambda wanted=start: wanted in stored(topology))
    assert stored(topology) == [0, 10, 20, 30, 40]


def test_what_was_read_is_stored_when_a_sink_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlets, "WAITING", 1000)
    topology = with_sink(tmp_path, Parquet(path="out"))
    heard: list[int] = []
    told = Reader.next

    def next_(self: Reader, timeout: float | None = None) -> Any:
        found = told(self, timeout)
        heard.extend([] if found is None else [found.boundary])
        return found

    monkeypatch.setattr(Reader, "next", next_)
    with publishing(topology) as publisher:
        publisher.publish(0, 10, [1.0])
        with running(topology):
            wait_for(lambda: heard)
            assert stored(topology) == []
    assert stored(topology) == [1.0]


def test_many_rows_are_stored_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "WAITING", 1000)
    monkeypatch.setattr(outlets, "AT_ONCE", 50)
    topology = with_sink(tmp_path, Parquet(path="out"))
    with publishing(topology) as publisher, running(topology) as driver:
        for start in range(20):
            publisher.publish(start, start + 1, [start] * 10)
        wait_for(lambda: driver.counts.get("rows") == 200)
        assert driver.counts["batches"] == 4


def test_what_ends_a_sink_is_told(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Parquet(path="out"))
    (tmp_path / "out").write_text("a file where a folder should be")
    with running(topology) as driver:
        wait_for(driver.ended.is_set)
        assert driver.failure is not None
        assert "FileExistsError" in driver.failure


def test_what_was_not_kept_for_a_sink_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topology = with_sink(tmp_path, Parquet(path="out"))
    with publishing(topology, start=100) as publisher:
        publisher.publish(100, 110, [1.0])
        with running(topology) as driver:
            wait_for(lambda: stored(topology) == [1.0])
            assert driver.counts["gaps"] == 1
    assert "between 0 and 100 was not kept" in caplog.text


def test_a_sink_may_be_read_elsewhere(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Parquet(path="out"))
    elsewhere = alone(tmp_path).streams["readings"].address
    with Publisher(elsewhere, topology.readers("readings")) as publisher:
        publisher.publish(0, 10, [1.0])
        with running(topology, routes={"readings": elsewhere}):
            wait_for(lambda: stored(topology) == [1.0])


# Console and callback


def test_a_console_shows_what_happens(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Console(), tentative=True)
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system="standard", width=200)
    with publishing(topology) as publisher, running(topology, console=screen) as driver:
        publisher.publish(0, 10, [1.0])
        wait_for(lambda: "value=1.0" in out.getvalue())
        publisher.preview(10, 20, [2.0, 3.0])
        wait_for(lambda: "value=3.0" in out.getvalue())
        publisher.publish(10, 20, [4.0])
        wait_for(lambda: "corrected" in out.getvalue())
        wait_for(lambda: publisher.kept_from == 20)
        assert driver.failure is None
    lines = out.getvalue().splitlines()
    green, yellow, red = "\x1b[32m", "\x1b[33m", "\x1b[1;31m"
    assert [line[: line.index("m") + 1] for line in lines] == [
        green,
        yellow,
        yellow,
        red,
        green,
        green,
    ]
    assert "2 rows are withdrawn" in lines[3]


@pytest.fixture
def called(tmp_path: Path) -> Iterator[list[Any]]:
    """What the function `handlers_of_sinks:handle` was called with."""
    (tmp_path / "handlers_of_sinks.py").write_text(
        "calls = []\n"
        "def handle(kind, boundary, rows):\n"
        "    calls.append((kind, boundary, rows and rows['value'].to_pylist()))\n"
        "    if rows and 13.0 in rows['value'].to_pylist():\n"
        "        raise ValueError('bad luck')\n"
    )
    sys.path.insert(0, str(tmp_path))
    import handlers_of_sinks

    yield handlers_of_sinks.calls
    sys.path.remove(str(tmp_path))
    del sys.modules["handlers_of_sinks"]


def test_a_function_is_told_what_happens(tmp_path: Path, called: list[Any]) -> None:
    topology = with_sink(tmp_path, Callback(function="handlers_of_sinks:handle"), tentative=True)
    with publishing(topology) as publisher:
        with running(topology):
            publisher.publish(0, 10, [1.0])
            wait_for(lambda: len(called) == 1)
            publisher.preview(10, 20, [2.0])
            wait_for(lambda: len(called) == 2)
        # It is not known any more what was tentative; it is shown again.
        publisher.publish(10, 20, [3.0])
        with running(topology):
            wait_for(lambda: len(called) == 4)
            publisher.publish(20, 30, [])
            wait_for(lambda: publisher.kept_from == 30)
    assert called == [
        (Kind.INSERT, 10, [1.0]),
        (Kind.TENTATIVE, 20, [2.0]),
        (Kind.UNDO, 10, None),
        (Kind.INSERT, 20, [3.0]),
    ]


def test_a_function_that_fails_is_called_again_after_a_restart(
    tmp_path: Path, called: list[Any]
) -> None:
    topology = with_sink(tmp_path, Callback(function="handlers_of_sinks:handle"))
    with publishing(topology) as publisher:
        publisher.publish(0, 10, [1.0])
        publisher.publish(10, 20, [13.0])
        for _ in range(2):
            with running(topology) as driver:
                wait_for(driver.ended.is_set)
                assert driver.failure == "ValueError: bad luck"
        assert publisher.kept_from == 10
    assert [boundary for _, boundary, _ in called] == [10, 20, 20]


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    topology = with_sink(tmp_path, Callback(function="no_such_module:handle"))
    with pytest.raises(InvalidArgumentError, match=r"sinks\.sink\.function: no_such_module:handle"):
        open_sink(topology, "sink")
