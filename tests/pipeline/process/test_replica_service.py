"""What others ask of a replica, and what strangers send it."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.errors import RefusedError
from holdfast.pipeline.machine.messages import Message, StateOffer, StateRequest
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.stages.entries import Order, journal_ticket
from holdfast.transport.client import LogClient
from tests.pipeline.process.fake_query import SIZE
from tests.pipeline.process.replica_rig import Rig, answers_in, end_of, link_of, numbers
from tests.pipeline.sources.rig import wait_for
from tests.transport.samples import draw_message, mutate

pytestmark = pytest.mark.usefixtures("no_spark")


def test_rows_are_read_by_ticket_and_wrong_tickets_are_refused(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        end = rig.boundary()
        with LogClient(replica.address) as client:
            whole = client.fetch(LogTicket("sums", 0, end).write())
            assert answers_in(whole) == numbers(300)
            assert whole.schema == replica.schema
            part = client.fetch(LogTicket("sums", 10 * SIZE, 20 * SIZE).write())
            assert answers_in(part) == [each for each in numbers(300) if 10 <= each[0] < 20]
            assert client.streams() == {"sums": replica.schema}
            before = replica.status()
            for wrong in (
                b"",
                b"{}",
                b"journal",
                b"journal 1",
                b"journal -1 0",
                b"[" * 10_000,
                b'{"stream": "sums", "start": 0.5, "end": 1}',
                b'{"stream": "sums", "start": 0, "end": 1, "more": 2}',
                LogTicket("sums", 0, end + 1).write(),
                LogTicket("sums", -1, end).write(),
                LogTicket("a", 0, end).write(),
                LogTicket("", 0, 0).write(),
                journal_ticket(10**9, 0),
                journal_ticket(replica._workplace.journal.last, 10**6),
            ):
                with pytest.raises(RefusedError):
                    client.fetch(wrong)
            with pytest.raises(RefusedError, match="push rows to the source"):
                client.push("sums", whole)
            with pytest.raises(RefusedError, match="ask for 'status'"):
                client.act("dance")
            after = json.loads(client.act("status"))
            assert after["refused"]
            for name in ("boundary", "start", "stable_rows", "log_bytes", "state"):
                assert after[name] == before[name]


def test_a_replica_without_state_has_nothing_to_read(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        replica = rig.open(held=Order.DROP)
        with LogClient(replica.address) as client:
            with pytest.raises(RefusedError, match="has no sums to read"):
                client.fetch(LogTicket("sums", 0, 0).write())
            assert not json.loads(client.act("status"))["ready"]


def test_only_a_peer_gets_a_copy_of_the_state(tmp_path: Path) -> None:
    with Rig(tmp_path, replicas=2) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        heard: list[Message] = []
        # Its peer does not run: what is for that one does not go to who calls under its name.
        with (
            link_of("stranger", replica, heard) as stranger,
            link_of("sums/2", replica, heard) as peer,
        ):
            for number in range(100):
                assert stranger.send(StateRequest(number))
            assert peer.send(StateRequest(7))
            wait_for(lambda: replica._workplace.server.counts["messages"] >= 101)
            replica._workplace.loop.call(lambda now: None)
            rig.bring(300, 400)
            wait_for(lambda: rig.boundary() >= end_of(400))
        assert rig.engines["sums/1"].done.count(Order.COPY) == 1
        assert not any(isinstance(message, StateOffer) for message in heard)


def strange(chance: random.Random) -> Message:
    """Any message; often one about a stream that there is."""
    message = draw_message(chance)
    if hasattr(message, "stream") and chance.random() < 0.5:
        facts = {each.name: getattr(message, each.name) for each in fields(message)}
        return type(message)(**facts | {"stream": chance.choice(["sums", "a"])})
    return message


def test_thousands_of_strange_messages_and_tickets_leave_it_working(tmp_path: Path) -> None:
    chance = random.Random(7)
    with Rig(tmp_path, replicas=2) as rig:
        replica = rig.open()
        rig.bring(0, 300)
        wait_for(lambda: rig.boundary() >= end_of(300))
        with link_of("stranger", replica, []) as one, link_of("größe", replica, []) as other:
            for link in (one, other):
                for _ in range(1000):
                    assert link.send(strange(chance))
            wait_for(lambda: one.outbox.sent == other.outbox.sent == 1000)
            wait_for(lambda: replica._workplace.server.counts["messages"] >= 2000)
        with LogClient(replica.address) as client:
            good = LogTicket("sums", 0, end_of(300)).write()
            for _ in range(300):
                with suppress(RefusedError):
                    client.fetch(mutate(chance, good))
        assert replica.failure is None
        assert rig.engines["sums/1"].done.count(Order.COPY) == 0
        rig.bring(300, 400)
        assert rig.final(end_of(400)) == numbers(400)
