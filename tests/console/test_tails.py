"""Streams that are read for the page."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from holdfast.console import stream_readers as tails_module
from holdfast.console.stream_readers import Tails, opener
from holdfast.errors import InvalidArgumentError, UnreachableError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import Console, Sink, Stage, Topology
from tests.console.fake_fleet import NOW, FakeReader, fleet_topology, windows
from tests.transport.parties import no_threads_left, wait_for


class Streams:
    """Opened readers, by stream."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, FakeReader]] = []
        self.told: dict[str, list[Told]] = {}

    def open(self, stream: str) -> FakeReader:
        queue: Queue[Told] = Queue()
        for each in self.told.get(stream, []):
            queue.put(each)
        reader = FakeReader(queue)
        self.opened.append((stream, reader))
        return reader


def test_what_is_told_is_kept(tmp_path: Path) -> None:
    streams = Streams()
    streams.told["sums"] = [windows([NOW], {"north": 7}), Told(Kind.UNDO, NOW)]
    with no_threads_left():
        tails = Tails(fleet_topology(tmp_path), streams.open, keep=["sums"], clock=lambda: NOW)
        wait_for(lambda: tails.of("sums").number == 2)
        tails.close()
    assert [piece[2] for piece in tails.of("sums").told(0, NOW + 1)] == ["stable", "undo"]
    [(_, reader)] = streams.opened
    assert reader.is_closed


def test_a_stream_is_read_when_it_is_wanted_and_few_at_a_time(tmp_path: Path) -> None:
    streams = Streams()
    now = [float(NOW)]
    tails = Tails(
        fleet_topology(tmp_path), streams.open, keep=["sums"], most=2, clock=lambda: now[0]
    )
    try:
        tails.of("clean")
        assert tails.open == ["sums", "clean"]
        with pytest.raises(InvalidArgumentError, match="2 are read already"):
            tails.of("readings")
        assert tails.open == ["sums", "clean"]
        now[0] += 10
        tails.of("readings")
        assert tails.open == ["sums", "readings"]
        wait_for(lambda: dict(streams.opened)["clean"].is_closed)
    finally:
        tails.close()


def test_a_stream_that_is_not_there_is_refused(tmp_path: Path) -> None:
    tails = Tails(fleet_topology(tmp_path), Streams().open)
    with pytest.raises(InvalidArgumentError, match="there is no 'minutes'"):
        tails.of("minutes")
    with pytest.raises(InvalidArgumentError):
        Tails(fleet_topology(tmp_path), Streams().open, keep=["minutes"])


@pytest.mark.parametrize("error", [UnreachableError("nobody answers"), RuntimeError("a bug")])
def test_what_cannot_be_read_is_told_and_tried_again(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails_module, "AGAIN", 0.05)
    streams, failures = Streams(), [error]

    def open_(stream: str) -> FakeReader:
        if failures:
            raise failures[0]
        return streams.open(stream)

    tails = Tails(fleet_topology(tmp_path), open_, keep=["sums"])
    try:
        wait_for(lambda: tails.problem("sums"))
        failures.clear()
        wait_for(lambda: tails.problem("sums") is None)
    finally:
        tails.close()


def test_where_readers_vote_so_does_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(
        tails_module, "read_stream", lambda topology, stream, **how: asked.append(how)
    )
    plain = fleet_topology(tmp_path)
    opener(plain)("sums")
    sums = plain.stages["sums"]
    replicas = [f"127.0.0.1:{7000 + number}" for number in range(4)]
    topology = Topology(
        name="voted",
        bucket="1s",
        streams=plain.streams,
        stages={
            "clean": plain.stages["clean"],
            "sums": Stage(inputs=["clean"], replicas=replicas, max_delay="5s", steps=sums.steps),
        },
        sinks={"archive": Sink(stream="sums", sink=Console(), policy="vote", faults=1)},
        home=tmp_path,
    )
    opener(topology)("sums")
    opener(topology)("clean")
    assert asked == [{}, {"policy": "vote", "faults": 1}, {}]
