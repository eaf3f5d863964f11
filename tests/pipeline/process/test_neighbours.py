"""Whom a party speaks with, over real links on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.ports import free_port
from holdfast.pipeline.machine.messages import Heartbeat, Message, Vitals
from holdfast.pipeline.process.service import Neighbours
from holdfast.transport.links import Outbox
from holdfast.transport.server import LogServer
from tests.transport.parties import Recorder, no_threads_left, wait_for


@pytest.fixture
def recorders() -> Iterator[dict[str, tuple[Recorder, LogServer]]]:
    """Parties a and b, that write down what they are told."""
    made = {}
    with no_threads_left():
        for name in "ab":
            recorder = Recorder()
            made[name] = recorder, LogServer(f"127.0.0.1:{free_port()}", None, recorder)
        yield made
        for _, server in made.values():
            server.close()


def addresses(recorders: dict[str, tuple[Recorder, LogServer]]) -> dict[str, str]:
    return {name: str(server.address) for name, (_, server) in recorders.items()}


def test_messages_go_to_those_it_has_called_and_theirs_come_back(
    recorders: dict[str, tuple[Recorder, LogServer]],
) -> None:
    heard: list[tuple[str, Message]] = []
    neighbours = Neighbours(
        "me",
        addresses(recorders),
        None,
        lambda who, what: heard.append((who, what)),
        heartbeat=0.02,
    )
    try:
        for at, (name, (recorder, _)) in enumerate(recorders.items()):
            wait_for(lambda name=name: neighbours.links[name].is_connected)
            neighbours.send(name, Heartbeat({}, at))
            wait_for(lambda recorder=recorder: recorder.told)
            assert recorder.told == [("me", Heartbeat({}, at))]
            recorder.say(Vitals({}, at))
        wait_for(lambda: len(heard) == 2)
        assert sorted(heard, key=lambda each: each[0]) == [
            ("a", Vitals({}, 0)),
            ("b", Vitals({}, 1)),
        ]
    finally:
        neighbours.close()


def test_messages_go_to_those_who_have_called() -> None:
    """The outbox of a link to a server: what is put into it arrives at the caller."""
    heard: list[tuple[str, Message]] = []
    recorder = Recorder()
    with no_threads_left(), LogServer(f"127.0.0.1:{free_port()}", None, recorder) as server:
        caller = Neighbours(
            "caller",
            {"me": str(server.address)},
            None,
            lambda who, what: heard.append((who, what)),
            heartbeat=0.02,
        )
        me = Neighbours("me", {}, None, lambda who, what: None, heartbeat=0.02)
        try:
            wait_for(lambda: "caller" in recorder.outboxes)
            me.opened("caller", recorder.outboxes["caller"])
            me.send("caller", Vitals({}, 5))
            wait_for(lambda: heard)
            assert heard == [("me", Vitals({}, 5))]
        finally:
            me.close()
            caller.close()


def test_the_end_of_a_link_that_was_replaced_does_not_end_the_new_one() -> None:
    me = Neighbours("me", {}, None, lambda who, what: None, heartbeat=0.02)
    # Without room they count what they are given.
    old, new = Outbox(max_count=0), Outbox(max_count=0)
    me.opened("caller", old)
    me.opened("caller", new)
    assert not me.closed("caller", old)
    me.send("caller", Vitals({}, 5))
    assert (old.dropped, new.dropped) == (0, 1)
    assert me.closed("caller", new)
    assert not me.closed("caller", new)


def test_who_calls_under_the_name_of_one_it_has_called_gets_nothing(
    recorders: dict[str, tuple[Recorder, LogServer]],
) -> None:
    heard: list[Message] = []
    neighbours = Neighbours(
        "me", addresses(recorders), None, lambda who, what: None, heartbeat=0.02
    )
    recorder = Recorder()
    with LogServer(f"127.0.0.1:{free_port()}", None, recorder) as server:
        false = Neighbours(
            "a",
            {"me": str(server.address)},
            None,
            lambda who, what: heard.append(what),
            heartbeat=0.02,
        )
        try:
            wait_for(lambda: "a" in recorder.outboxes)
            neighbours.opened("a", recorder.outboxes["a"])
            wait_for(lambda: neighbours.links["a"].is_connected)
            neighbours.send("a", Heartbeat({}, 1))
            wait_for(lambda: recorders["a"][0].told)
            assert heard == []
        finally:
            false.close()
            neighbours.close()


def test_what_is_for_nobody_it_knows_is_dropped(
    recorders: dict[str, tuple[Recorder, LogServer]],
) -> None:
    neighbours = Neighbours(
        "me", addresses(recorders), None, lambda who, what: None, heartbeat=0.02
    )
    try:
        neighbours.send("somebody", Heartbeat({}, 1))
        wait_for(lambda: neighbours.links["b"].is_connected)
        neighbours.send("b", Heartbeat({}, 2))
        wait_for(lambda: recorders["b"][0].told)
        assert recorders["a"][0].told == []
    finally:
        neighbours.close()


def test_a_party_that_is_not_there_is_found_when_it_comes() -> None:
    address = f"127.0.0.1:{free_port()}"
    with no_threads_left():
        neighbours = Neighbours(
            "me", {"late": address}, None, lambda who, what: None, heartbeat=0.02
        )
        try:
            neighbours.send("late", Heartbeat({}, 1))
            assert not neighbours.links["late"].is_connected
            recorder = Recorder()
            with LogServer(address, None, recorder):
                wait_for(lambda: neighbours.links["late"].is_connected)
                neighbours.send("late", Heartbeat({}, 2))
                wait_for(lambda: ("me", Heartbeat({}, 2)) in recorder.told)
        finally:
            neighbours.close()


def test_a_link_lives_though_one_side_has_a_much_longer_heartbeat() -> None:
    recorder = Recorder()
    with (
        no_threads_left(),
        LogServer(f"127.0.0.1:{free_port()}", None, recorder, heartbeat=0.1, silence=1.0) as server,
    ):
        slow = Neighbours(
            "slow", {"me": str(server.address)}, None, lambda who, what: None, heartbeat=60.0
        )
        try:
            wait_for(lambda: "slow" in recorder.outboxes)
            outbox = recorder.outboxes["slow"]
            until = time.monotonic() + 3
            wait_for(lambda: time.monotonic() > until or not slow.links["me"].is_connected)
            assert slow.links["me"].is_connected
            assert recorder.outboxes["slow"] is outbox, "it was hung up on and has called again"
        finally:
            slow.close()
