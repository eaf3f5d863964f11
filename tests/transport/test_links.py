"""Links: messages both ways, whatever happens to the connection under them."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from holdfast.pipeline.machine.messages import (
    Feed,
    Heartbeat,
    Message,
    Stable,
    StatePiece,
    StateRequest,
)
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.chunks import Chunk
from holdfast.transport.links import Link
from holdfast.transport.proxy import Proxy
from holdfast.transport.server import LogServer
from tests.transport.parties import SOON, Recorder, no_threads_left, wait_for
from tests.transport.processes import server_process
from tests.transport.samples import draw_message

HEARTBEAT = 0.05
SILENCE = 0.6


class Rig:
    """A server, a link to it, and a proxy between them."""

    def __init__(self, server: LogServer, service: Recorder, proxy: Proxy) -> None:
        self.server = server
        self.service = service
        self.proxy = proxy
        self.got: list[Message] = []
        self.link = Link(
            "reader",
            "source",
            proxy.address,
            None,
            lambda party, message: self.got.append(message),
            heartbeat=HEARTBEAT,
            silence=SILENCE,
        )
        self._said = 0

    def works(self) -> None:
        """Both ways, now: repeated until it arrives, as the protocol does it."""
        self._said += 1
        said = self._said
        last = 0.0

        def arrived() -> bool:
            nonlocal last
            if time.monotonic() - last > 0.05:
                last = time.monotonic()
                self.link.send(StateRequest(said))
                self.service.say(Heartbeat({}, said))
            return ("reader", StateRequest(said)) in self.service.told[-50:] and Heartbeat(
                {}, said
            ) in self.got[-50:]

        wait_for(arrived)


@pytest.fixture
def rig() -> Iterator[Rig]:
    service = Recorder()
    options = {"heartbeat": HEARTBEAT, "silence": SILENCE}
    with (
        no_threads_left(),
        LogServer(("127.0.0.1", 0), None, service, **options) as server,
        Proxy(server.address) as proxy,
    ):
        made = Rig(server, service, proxy)
        with made.link:
            made.works()
            yield made


def test_messages_go_both_ways_in_order(rig: Rig) -> None:
    rng = random.Random(5)
    messages = [draw_message(rng) for _ in range(3000)]
    rig.got.clear()
    rig.service.told.clear()
    for start in range(0, len(messages), 1000):
        for message in messages[start : start + 1000]:
            assert rig.link.send(message)
            assert rig.service.outboxes["reader"].send(message)
        wait_for(lambda stop=start + 1000: min(len(rig.got), len(rig.service.told)) >= stop)
    assert rig.got == messages
    assert rig.service.told == [("reader", message) for message in messages]


@pytest.mark.parametrize("seconds", [0.2, 1.5])
@pytest.mark.parametrize("direction", [None, "to", "from"])
def test_a_cut_link_works_at_once_after_it_is_healed(rig: Rig, direction, seconds: float) -> None:
    rig.proxy.cut(direction)
    end = time.monotonic() + seconds
    wait_for(lambda: not rig.link.send(StateRequest(0)) or time.monotonic() > end)
    rig.proxy.heal()
    begin = time.monotonic()
    rig.works()
    assert time.monotonic() - begin < SOON


def test_a_reset_link_works_at_once_after_it_is_healed(rig: Rig) -> None:
    rig.proxy.reset()
    wait_for(lambda: rig.service.ends == 1 and not rig.link.is_connected)
    assert rig.server.parties == []
    end = time.monotonic() + 1.5
    wait_for(lambda: time.monotonic() > end)
    assert "127.0.0.1" in rig.link.trouble
    rig.proxy.heal()
    begin = time.monotonic()
    rig.works()
    assert time.monotonic() - begin < SOON
    assert rig.link.trouble == ""


def test_both_ends_notice_a_cut(rig: Rig) -> None:
    rig.proxy.cut()
    wait_for(lambda: rig.service.ends == 1 and not rig.link.is_connected)
    assert rig.server.parties == []


def test_links_that_were_held_up_do_not_displace_newer_ones(rig: Rig) -> None:
    for _ in range(3):
        rig.proxy.cut()
        attempts = rig.proxy.accepted
        wait_for(lambda attempts=attempts: rig.proxy.accepted > attempts + 1)
        rig.proxy.heal()
        rig.works()
        wait_for(lambda: rig.server.parties == ["reader"])


def test_a_slow_link_is_kept(rig: Rig) -> None:
    rig.proxy.delay(0.3)
    rig.works()
    assert rig.link.connections == 1
    rig.proxy.heal()
    # 2 MB take more than twice as long as the link may be silent.
    rig.proxy.slow(1.5e6)
    column = np.random.default_rng(1).bytes(2_000_000)
    message = Feed("s", 1, 0, (Stable(Segment(0, 1, (Row(0, None, chunk_of(column)),))),))
    rig.service.say(message)
    rig.link.send(message)
    wait_for(lambda: message in rig.got and ("reader", message) in rig.service.told)
    assert rig.link.connections == 1


def chunk_of(data: bytes) -> Chunk:
    return Chunk.of(pa.table({"c": pa.array([data], pa.binary())}))


def test_large_chunks_go_through(rig: Rig) -> None:
    chunk = chunk_of(np.random.default_rng(1).bytes(50_000_000))
    message = Feed("s", 1, 0, (Stable(Segment(0, 1, (Row(0, None, chunk),))),))
    rig.service.say(message)
    rig.link.send(message)
    wait_for(lambda: message in rig.got and ("reader", message) in rig.service.told)
    assert rig.link.connections == 1


def test_a_service_that_takes_its_time_is_not_silent(rig: Rig) -> None:
    rig.service.busy.clear()
    rig.link.send(StateRequest(7))
    end = time.monotonic() + 3 * SILENCE
    wait_for(lambda: time.monotonic() > end)
    assert rig.server.parties == ["reader"]
    rig.service.busy.set()
    rig.works()
    assert rig.link.connections == 1


def test_what_waited_for_too_long_is_not_sent(rig: Rig) -> None:
    rig.proxy.reset()
    wait_for(lambda: not rig.link.is_connected)
    rig.link.send(StateRequest(777))
    end = time.monotonic() + 2 * SILENCE
    wait_for(lambda: time.monotonic() > end)
    rig.proxy.heal()
    rig.works()
    assert ("reader", StateRequest(777)) not in rig.service.told
    assert rig.link.outbox.dropped >= 1


def test_a_failing_receiver_does_not_end_the_link() -> None:
    taken = []

    def receive(party: str, message: Message) -> None:
        taken.append(message)
        raise RuntimeError("not my day")

    service = Recorder()
    with (
        LogServer(("127.0.0.1", 0), None, service) as server,
        Link("reader", "source", server.address, None, receive) as link,
    ):
        wait_for(lambda: service.outboxes)
        service.say(StateRequest(1))
        service.say(StateRequest(2))
        wait_for(lambda: len(taken) == 2)
        assert link.connections == 1


def test_a_stopped_server_does_not_block_the_sender() -> None:
    chunk = chunk_of(bytes(1_000_000))
    message = Feed("s", 1, 0, (Stable(Segment(0, 1, (Row(0, None, chunk),))),))
    options = {"heartbeat": HEARTBEAT, "silence": SILENCE}
    with no_threads_left(), server_process() as (process, address):
        with Link("reader", "source", address, None, lambda *_: None, **options) as link:
            wait_for(lambda: link.is_connected)
            os.kill(process.pid, signal.SIGSTOP)
            begin = time.monotonic()
            for _ in range(1000):
                link.send(message)
            assert time.monotonic() - begin < SOON
            wait_for(lambda: not link.is_connected)
            os.kill(process.pid, signal.SIGCONT)
            assert wait_for(lambda: link.is_connected) < SOON
            os.kill(process.pid, signal.SIGSTOP)
            link.send(message)
            begin = time.monotonic()
        assert time.monotonic() - begin < SOON
        os.kill(process.pid, signal.SIGCONT)


def test_a_killed_server_that_comes_back_is_found() -> None:
    service = Recorder()
    with LogServer(("127.0.0.1", 0), None, service) as server:
        address = server.address
        link = Link("reader", "source", address, None, lambda *_: None)
        wait_for(lambda: link.is_connected)
    with link:
        wait_for(lambda: not link.is_connected)
        with LogServer(address, None, service):
            assert wait_for(lambda: link.is_connected) < SOON


def test_a_message_that_is_too_large_is_counted_and_the_link_made_anew() -> None:
    service = Recorder()
    got: list[Message] = []
    with (
        no_threads_left(),
        LogServer(("127.0.0.1", 0), None, service) as server,
        Link(
            "reader",
            "source",
            server.address,
            None,
            lambda party, message: got.append(message),
            max_message=1000,
        ) as link,
    ):
        wait_for(lambda: "reader" in service.outboxes)
        service.say(StatePiece(1, 0, bytes(2000)))
        wait_for(lambda: link.refused == 1)
        wait_for(lambda: service.say(StateRequest(7)) or StateRequest(7) in got)
        assert link.connections == 2
        assert set(got) == {StateRequest(7)}
