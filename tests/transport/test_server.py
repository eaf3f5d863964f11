"""The server: what it serves, whom it refuses, and that nothing from outside harms it."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from holdfast.errors import InvalidArgumentError, RefusedError, UnreachableError, WireError
from holdfast.pipeline.machine.messages import Heartbeat, Message, StateRequest, Unsubscribe
from holdfast.transport.client import LogClient, act, connect, fetch
from holdfast.transport.codec import encode
from holdfast.transport.links import BEAT, FRAME, LINK, Hello, Link, frames_of
from holdfast.transport.security import Identities, Security
from holdfast.transport.server import LogServer
from tests.transport.certificates import Authority, Identity
from tests.transport.parties import SOON, Recorder, no_threads_left, wait_for
from tests.transport.samples import draw_message, mutate, readings

OURS = Authority("ours")
THEIRS = Authority("theirs")
LOOPBACK = ("127.0.0.1", 0)


@pytest.fixture
def service() -> Recorder:
    return Recorder()


@pytest.fixture
def server(service: Recorder) -> Iterator[LogServer]:
    """Patient with links made by hand, which do not beat."""
    options = {"max_message": 1 << 20, "silence": 60.0}
    with no_threads_left(), LogServer(LOOPBACK, None, service, **options) as made:
        yield made


def works(server: LogServer, service: Recorder, security: Security | None = None) -> None:
    """A link both ways, a read, a push and an action."""
    got = []
    before = len(service.told)
    with Link("friend", "us", server.address, security, lambda *_: got.append(_)) as link:
        wait_for(lambda: link.is_connected and "friend" in service.outboxes)
        link.send(StateRequest(1))
        service.say(Heartbeat({}, 1))
        wait_for(lambda: got == [("us", Heartbeat({}, 1))] and len(service.told) > before)
    assert ("friend", StateRequest(1)) in service.told
    with LogClient(server.address, security) as client:
        assert client.fetch(b"rows 100").equals(readings(100))
        assert client.act("echo", b"x") == b"x"
        assert client.push("readings", readings(3)) == [b"3"]
    wait_for(lambda: server.parties == [])


def test_it_serves(server: LogServer, service: Recorder) -> None:
    works(server, service)
    assert server.counts["links"] == 1
    assert server.counts["messages"] == 1
    assert server.counts["reads"] == server.counts["pushes"] == server.counts["actions"] == 1


def test_rows_are_read_whole(server: LogServer) -> None:
    assert fetch(server.address, None, b"rows 1000000").equals(readings(1_000_000))
    assert fetch(server.address, None, b"rows 0").equals(readings(0))
    assert fetch(server.address, None, b"stream").equals(readings(10))


def test_each_batch_that_is_pushed_is_acknowledged(server: LogServer, service: Recorder) -> None:
    table = pa.concat_tables([readings(2), readings(3, 2), readings(4, 5)])
    with LogClient(server.address) as client:
        assert client.push("readings", table) == [b"2", b"3", b"4"]
        assert client.push("readings", readings(0)) in ([], [b"0"])
    assert pa.Table.from_batches(service.pushed).slice(0, 9).equals(table.combine_chunks())


def test_streams_are_listed(server: LogServer) -> None:
    with LogClient(server.address) as client:
        assert client.streams() == {"readings": readings(0).schema}
    flight = fl.FlightClient(server.address.location(tls=False))
    with flight:
        info = flight.get_flight_info(fl.FlightDescriptor.for_path("readings"))
        assert info.schema == readings(0).schema
        with pytest.raises(fl.FlightServerError, match="there is no stream 'other' here"):
            flight.get_flight_info(fl.FlightDescriptor.for_path("other"))


def test_refusals_are_told_counted_and_logged(
    server: LogServer, service: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    with LogClient(server.address) as client:
        with pytest.raises(RefusedError, match=r"^127.0.0.1:\d+: ticket: this is none; ask for a"):
            client.fetch(b"nonsense")
        with pytest.raises(RefusedError, match=r"a ticket of .* is larger"):
            client.fetch(bytes(100_000))
        with pytest.raises(RefusedError, match="only 'echo'"):
            client.act("other")
        with pytest.raises(RefusedError, match="an action is too large"):
            client.act("echo", bytes(2 << 20))
        with pytest.raises(RefusedError, match="'other' takes no rows"):
            client.push("other", readings(1))
        large = pa.table({"c": [bytes(2 << 20)]})
        with pytest.raises(RefusedError, match="larger than 1048576; send smaller"):
            client.push("readings", large)
    assert service.pushed == []
    assert server.refused == {"ticket": 2, "action": 2, "push": 2}
    assert sum("refused" in record.getMessage() for record in caplog.records) == 6


def test_a_message_that_a_service_refuses_is_counted_and_the_link_goes_on(
    server: LogServer, service: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = service.received

    def choosy(party: str, message: Message) -> None:
        if message == Unsubscribe("s", 1):
            raise InvalidArgumentError("not this one")
        take(party, message)

    monkeypatch.setattr(service, "received", choosy)
    with Link("x", "us", server.address, None, lambda *_: None) as link:
        for number in range(3):
            link.send(Unsubscribe("s", number))
        wait_for(lambda: len(service.told) == 2)
        assert [message for _, message in service.told] == [
            Unsubscribe("s", 0),
            Unsubscribe("s", 2),
        ]
        assert link.connections == 1
    assert server.refused == {"message": 1}
    assert server.counts["failed"] == 0


def test_failures_tell_nothing_of_the_inside(server: LogServer) -> None:
    with LogClient(server.address) as client:
        for call in [
            lambda: client.fetch(b"fails"),
            lambda: client.fetch(b"breaks"),
            lambda: client.act("fail"),
        ]:
            with pytest.raises(WireError, match="failed inside; its log says why") as caught:
                call()
            assert "secret" not in str(caught.value)
            assert "Traceback" not in str(caught.value)
    assert server.counts["failed"] == 3


def test_a_wrong_token_is_refused(service: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    right = Security("right")
    with no_threads_left(), LogServer(LOOPBACK, right, service) as server:
        for wrong in [None, Security("wrong"), Security("righ")]:
            with pytest.raises(RefusedError, match="token is missing or wrong; give the token"):
                act(server.address, wrong, "echo")
            with pytest.raises(RefusedError):
                fetch(server.address, wrong, b"rows 1")
            with LogClient(server.address, wrong) as client:
                with pytest.raises(RefusedError):
                    client.push("readings", readings(1))
                with pytest.raises(RefusedError):
                    client.streams()
            with Link("thief", "us", server.address, wrong, lambda *_: None) as link:
                link.send(StateRequest(1))
                wait_for(lambda link=link: "token is missing or wrong" in link.trouble)
        assert server.refused["token"] >= 15
        assert "refused token: it is wrong" in caplog.text
        assert "righ" not in caplog.text.replace("it is", "")
        assert (service.told, service.pushed, service.outboxes) == ([], [], {})
        works(server, service, right)


def secured(by: Authority, *, mutual: bool = False, trusting: Authority | None = None) -> Security:
    identity = by.sign()
    authority = (trusting or by).certificate
    return Security("token", identity.certificate, identity.key, authority, mutual)


@pytest.mark.parametrize("mutual", [False, True])
def test_tls(service: Recorder, mutual: bool) -> None:
    with no_threads_left(), LogServer(LOOPBACK, secured(OURS, mutual=mutual), service) as server:
        works(server, service, secured(OURS))
        told = len(service.told)
        without = Security("token", authority=OURS.certificate)
        if not mutual:
            works(server, service, without)
            told = len(service.told)
        strangers = [
            None,
            Security("token"),
            Security("token", authority=THEIRS.certificate),
            *([without, secured(THEIRS, trusting=OURS)] if mutual else []),
        ]
        for stranger in strangers:
            with pytest.raises(UnreachableError):
                act(server.address, stranger, "echo", timeout=5)
            with Link("thief", "us", server.address, stranger, lambda *_: None) as link:
                link.send(StateRequest(1))
                wait_for(lambda link=link: link.trouble)
                assert not link.is_connected
        with pytest.raises(RefusedError, match="token"):
            act(server.address, Security("other", authority=OURS.certificate, **_own()), "echo")
        assert len(service.told) == told


def _own() -> dict[str, bytes]:
    identity = OURS.sign()
    return {"certificate": identity.certificate, "key": identity.key}


def test_a_certificate_for_another_host_is_refused(service: Recorder) -> None:
    other = OURS.sign("10.0.0.5")
    security = Security("token", other.certificate, other.key, OURS.certificate)
    with LogServer(LOOPBACK, security, service) as server, pytest.raises(UnreachableError):
        act(server.address, security, "echo", timeout=5)


@pytest.mark.parametrize(
    ("certificate", "party", "is_good"),
    [
        (OURS.sign("10.0.0.1"), "clean/1", True),
        (OURS.sign("10.0.0.1", first="Edge-1"), "clean/1", True),
        (OURS.sign("10.0.0.9", first="holdfast:clean/1"), "clean/1", True),
        (OURS.sign("", name="clean/1"), "clean/1", True),
        (OURS.sign("10.0.0.2"), "clean/1", False),
        (OURS.sign("10.0.0.2", first="edge-2"), "clean/1", False),
        (OURS.sign("10.0.0.1", first="edge-2"), "clean/1", False),
        (OURS.sign("", name="clean/2"), "clean/1", False),
        # The common name does not count beside others.
        (OURS.sign("10.0.0.2", name="clean/1"), "clean/1", False),
        (OURS.sign("10.0.0.2"), "guest-1", True),
    ],
)
def test_a_certificate_is_good_for_its_own_parties(
    service: Recorder, certificate: Identity, party: str, is_good: bool
) -> None:
    identities = Identities({"clean/1": ["clean/1", "holdfast:clean/1", "10.0.0.1", "edge-1"]})
    shown = Security("token", certificate.certificate, certificate.key, OURS.certificate)
    with (
        no_threads_left(),
        LogServer(LOOPBACK, secured(OURS, mutual=True), service, identities=identities) as server,
        Link(party, "us", server.address, shown, lambda *_: None) as link,
    ):
        wait_for(lambda: link.is_connected or link.trouble)
        assert link.is_connected == is_good
        if not is_good:
            assert "may not call as clean/1; let its first alternative name be" in link.trouble
            assert server.refused["link"] >= 1
            assert service.outboxes == {}


def test_without_certificates_of_clients_any_may_call_as_anybody(service: Recorder) -> None:
    identities = Identities({"clean/1": ["edge-1"]})
    with (
        no_threads_left(),
        LogServer(LOOPBACK, None, service, identities=identities) as server,
        Link("clean/1", "us", server.address, None, lambda *_: None) as link,
    ):
        wait_for(lambda: link.is_connected)


def test_bad_certificates_are_named(service: Recorder) -> None:
    with pytest.raises(InvalidArgumentError, match="certificate and key beside authority"):
        LogServer(LOOPBACK, Security("token", authority=OURS.certificate), service)


def test_a_taken_port_is_refused(server: LogServer, service: Recorder) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot serve on 127.0.0.1:\d+: Address alre"):
        LogServer(server.address, None, service)


@contextmanager
def exchange(server: LogServer) -> Iterator[tuple[fl.FlightStreamWriter, fl.FlightStreamReader]]:
    client = connect(server.address, Security(), 5)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(LINK))
    try:
        yield writer, reader
    finally:
        reader.cancel()
        with suppress(fl.FlightError, pa.ArrowException, OSError):
            writer.close()
        client.close()


def ends(reader: fl.FlightStreamReader) -> str:
    """What the server says at last."""
    try:
        while True:
            reader.read_chunk()
    except StopIteration:
        return ""
    except (fl.FlightError, pa.ArrowException) as error:
        return str(error)


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([b"x"], "does not begin with who calls"),
        ([b"H"], "does not say properly"),
        ([BEAT], "does not begin"),
        ([Hello("a\nb", bytes(16), 0).frame()], "unprintable"),
        ([Hello("a", bytes(16), 0).frame(), b"x"], "no frame"),
        ([Hello("a", bytes(16), 0).frame(), b"L" + bytes(FRAME + 1)], "no frame"),
        ([Hello("a", bytes(16), 0).frame(), *[b"P" + bytes(FRAME)] * 5], "larger than 1048576"),
    ],
)
def test_bad_frames_end_the_link(
    server: LogServer, service: Recorder, frames: list[bytes], said: str
) -> None:
    with exchange(server) as (writer, reader):
        for frame in frames:
            writer.write_metadata(frame)
        assert said in ends(reader)
    assert server.refused["link"] == 1
    wait_for(lambda: server.parties == [] and not service.outboxes)
    assert service.told == []


def test_bad_messages_are_dropped_and_the_link_goes_on(
    server: LogServer, service: Recorder
) -> None:
    with exchange(server) as (writer, _):
        writer.write_metadata(Hello("a", bytes(16), 0).frame())
        for data in [b"nonsense", encode(StateRequest(1)) + b"x", encode(StateRequest(2))]:
            for frame in frames_of(data):
                writer.write_metadata(frame)
        wait_for(lambda: service.told == [("a", StateRequest(2))])
        assert server.refused["message"] == 2


def test_rows_are_no_link(server: LogServer) -> None:
    with exchange(server) as (writer, reader):
        writer.write_metadata(Hello("a", bytes(16), 0).frame())
        # It may end the call before all is written.
        with suppress(fl.FlightError, pa.ArrowException):
            writer.begin(readings(0).schema)
            writer.write_table(readings(5))
        assert "instead of frames" in ends(reader)
    client = connect(server.address, Security(), 5)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b"other"))
    with suppress(fl.FlightError, pa.ArrowException):
        writer.write_metadata(BEAT)
    assert "is no link" in ends(reader)
    client.close()


def test_the_number_of_links_is_bounded(service: Recorder) -> None:
    with (
        no_threads_left(),
        LogServer(LOOPBACK, None, service, max_links=2) as server,
        Link("a", "us", server.address, None, lambda *_: None) as a,
        Link("b", "us", server.address, None, lambda *_: None) as b,
    ):
        wait_for(lambda: a.is_connected and b.is_connected)
        with Link("c", "us", server.address, None, lambda *_: None) as c:
            wait_for(lambda: "no more are taken" in c.trouble)
            a.close()
            wait_for(lambda: c.is_connected)


def test_a_new_link_of_a_party_replaces_the_old_one(server: LogServer, service: Recorder) -> None:
    with exchange(server) as (old_writer, old_reader):
        old_writer.write_metadata(Hello("a", bytes(16), 3).frame())
        wait_for(lambda: "a" in service.outboxes)
        old = service.outboxes["a"]
        with exchange(server) as (late_writer, late_reader):
            late_writer.write_metadata(Hello("a", bytes(16), 2).frame())
            assert "older link" in ends(late_reader)
        assert service.outboxes["a"] is old
        with exchange(server) as (writer, _):
            writer.write_metadata(Hello("a", bytes(16), 4).frame())
            ends(old_reader)
            wait_for(lambda: service.ends == 1 and service.outboxes.get("a") not in (None, old))
            assert server.parties == ["a"]


def test_a_reader_that_takes_nothing_is_hung_up(service: Recorder) -> None:
    with no_threads_left(), LogServer(LOOPBACK, None, service, silence=0.6) as server:
        stop = threading.Event()
        with exchange(server) as (writer, _):
            writer.write_metadata(Hello("a", bytes(16), 0).frame())

            def live() -> None:
                with suppress(fl.FlightError, pa.ArrowException, OSError):
                    while not stop.wait(0.05):
                        writer.write_metadata(BEAT)

            thread = threading.Thread(target=live)
            thread.start()
            try:
                wait_for(lambda: "a" in service.outboxes)
                outbox = service.outboxes["a"]
                large = Heartbeat({f"{i:0200}": i for i in range(5000)})
                wait_for(lambda: not outbox.send(large))
                wait_for(lambda: service.ends == 1 and server.parties == [])
            finally:
                stop.set()
                thread.join()


def test_fuzzed_calls_leave_it_working(service: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    rng = random.Random(6)
    with no_threads_left(), LogServer(LOOPBACK, None, service, max_message=1 << 20) as server:
        client = connect(server.address, Security(), 5)
        options = fl.FlightCallOptions(timeout=10)
        for _ in range(1000):
            ticket = mutate(rng, b"rows 10") or b"?"
            with suppress(fl.FlightError, pa.ArrowException):
                client.do_get(fl.Ticket(ticket), options).read_all()
            name = rng.choice(["echo", "", "nonsense", "ü" * rng.randrange(300)])
            with suppress(fl.FlightError, pa.ArrowException):
                list(client.do_action(fl.Action(name, rng.randbytes(rng.randrange(99))), options))
        for _ in range(200):
            path = rng.choice([["readings"], [], ["a", "b"], [rng.randbytes(5)], ["x" * 999]])
            table = rng.choice([readings(2), pa.table({"x": [[1]]}), pa.table({})])
            with suppress(fl.FlightError, pa.ArrowException):
                writer, _ = client.do_put(
                    fl.FlightDescriptor.for_path(*path), table.schema, options
                )
                try:
                    writer.write_table(table)
                finally:
                    writer.close()
        client.close()
        works(server, service)
        for _ in range(150):
            with exchange(server) as (writer, reader), suppress(fl.FlightError, pa.ArrowException):
                hello = Hello("fuzz", rng.randbytes(16), 0).frame()
                writer.write_metadata(hello if rng.random() < 0.9 else mutate(rng, hello) or b"?")
                for _ in range(20):
                    for frame in frames_of(mutate(rng, encode(draw_message(rng)))):
                        sent = frame if rng.random() < 0.98 else mutate(rng, frame)
                        writer.write_metadata(sent or b"?")
                writer.done_writing()
                ends(reader)
        wait_for(lambda: server.parties == [])
        works(server, service)
        assert server.counts["failed"] == 0
        assert server.refused["message"] > 1000


def test_garbage_on_the_port_leaves_it_working(server: LogServer, service: Recorder) -> None:
    rng = random.Random(8)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for _ in range(200):
        with socket.create_connection(server.address, timeout=5) as client, suppress(OSError):
            client.sendall(rng.choice([b"", preface]) + rng.randbytes(rng.randrange(2000)))
    works(server, service)


def test_closing_does_not_wait_for_clients(service: Recorder) -> None:
    with no_threads_left():
        server = LogServer(LOOPBACK, None, service)
        with exchange(server) as (writer, _), socket.create_connection(server.address):
            writer.write_metadata(Hello("a", bytes(16), 0).frame())
            wait_for(lambda: "a" in service.outboxes)
            begin = time.monotonic()
            server.close()
            server.close()
            assert time.monotonic() - begin < SOON
            assert service.ends == 1
            assert service.outboxes == {}
        with LogServer(server.address, None, service) as successor:
            works(successor, service)


def test_many_links_leave_no_files_open(server: LogServer, service: Recorder) -> None:
    works(server, service)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with Link("a", "us", server.address, None, lambda *_: None) as link:
            wait_for(lambda link=link: link.is_connected)
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before + 5)
