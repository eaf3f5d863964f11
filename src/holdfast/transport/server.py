"""Flight server of a process: links to readers and peers, rows by ticket, pushed rows.

`LogServer` carries; a `Service`, which knows what it is about, decides. What comes from outside is
checked here: whatever is refused is logged and counted, and reaches no service.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import BoundedSemaphore, Event, Lock, Thread
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.errors import HoldfastError, InvalidArgumentError, WireError
from holdfast.storage.untrusted import ARROW_ERRORS, check_table
from holdfast.transport.addresses import Address, hang_up_peer, hang_up_server
from holdfast.transport.codec import MAX_MESSAGE, decode
from holdfast.transport.front import KNOCK, Front, Ledger
from holdfast.transport.links import (
    BEAT,
    LINK,
    LOOKS,
    Assembly,
    Hello,
    Message,
    Outbox,
    Pulse,
    check_times,
)
from holdfast.transport.security import OPEN, Identities, Security, check_address


class Service(Protocol):
    """Called by many threads at a time; those of one link come in order.

    A HoldfastError is told to the client, anything else that is raised is not. Nothing may wait
    for long: closing the server waits for it.
    """

    def opened(self, party: str, outbox: Outbox) -> None:
        """A party has opened a link: what is put into the outbox goes there. A new link of a party
        replaces its old one, whose end may be told after this."""

    def received(self, party: str, message: Message) -> None:
        """A HoldfastError refuses the message; the link goes on."""

    def closed(self, party: str, outbox: Outbox) -> None:
        """The link with this outbox is gone."""

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        """The rows that a ticket stands for."""

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        """Take in rows; what is answered is the acknowledgement that the client gets."""

    def act(self, name: str, body: bytes) -> bytes: ...

    def streams(self) -> Mapping[str, pa.Schema]: ...


logger = logging.getLogger(__name__)


class _Link:
    def __init__(self, hello: Hello, peer: str) -> None:
        self.hello = hello
        self.peer = peer
        self.outbox = Outbox()
        self.reading = Pulse()
        self.writing = Pulse()
        self.ended = Event()


class Callers:
    """The links that others have opened, at most one of each party."""

    def __init__(
        self,
        service: Service,
        ledger: Ledger,
        identities: Identities | None,
        *,
        max_message: int,
        max_links: int,
        heartbeat: float,
        silence: float,
    ) -> None:
        check_times(heartbeat, silence)
        self._service = service
        self._ledger = ledger
        self._identities = identities
        self._max_message = max_message
        self._max_links = max_links
        self._heartbeat = heartbeat
        self._silence = silence
        self._port = 0
        self._lock = Lock()
        self._links: dict[str, _Link] = {}
        self._serving: set[_Link] = set()
        """Links whose threads have not ended, be they replaced."""
        self._sent: Counter[str] = Counter()
        """By links that are gone."""
        self._closing = Event()
        self._watch = Thread(target=self._look, name="holdfast server watch", daemon=True)

    def start(self, port: int) -> None:
        """Hang up on whoever is silent. `port`: of the server."""
        self._port = port
        self._watch.start()

    def close(self) -> None:
        """Take no more, and watch no longer; those there are end with their calls."""
        self._closing.set()
        self._watch.join()

    @property
    def parties(self) -> list[str]:
        """Who has a link now."""
        with self._lock:
            return sorted(self._links)

    @property
    def sent(self) -> Counter[str]:
        """What went out on links, and what was dropped instead."""
        with self._lock:
            sent = Counter(self._sent)
            for link in self._serving:
                _add(sent, link.outbox)
        return sent

    def serve(
        self,
        peer: str,
        certificate: bytes,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """Serve a link for as long as it lasts. `certificate`: the name in that of the caller."""
        frame = _next_frame(reader)
        if frame is None:
            return
        link = _Link(Hello.parse(frame), peer)
        if self._identities is not None:
            self._identities.check(link.hello.party, certificate.decode("utf-8", "replace"))
        self._admit(link)
        try:
            self._carry(link, reader, writer)
        finally:
            self._leave(link)

    def _carry(
        self,
        link: _Link,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        party = link.hello.party
        writing = Thread(
            target=self._write, args=(link, writer), name=f"holdfast to {party}", daemon=True
        )
        writing.start()
        try:
            with self._ledger.excusing():
                self._service.opened(party, link.outbox)
            assembly = Assembly(self._max_message)
            while (frame := _next_frame(reader)) is not None:
                link.reading.beat()
                data = assembly.take(frame)
                if data is not None:
                    with link.reading.rest():
                        self._take(party, data)
        finally:
            link.ended.set()
            link.outbox.close()
            # The call, and what the thread writes to, live until this returns.
            writing.join(0.2)
            while writing.is_alive():
                hang_up_peer(self._port, link.peer)
                writing.join(0.2)
            with self._ledger.excusing():
                self._service.closed(party, link.outbox)

    def _take(self, party: str, data: bytes) -> None:
        try:
            message = decode(data, self._max_message)
        except WireError as error:
            self._ledger.refuse("message", f"{error} (from {party})")
            return
        self._ledger.count("messages")
        self._ledger.count("bytes", len(data))
        with self._ledger.excusing():
            try:
                self._service.received(party, message)
            except HoldfastError as error:
                self._ledger.refuse("message", f"{error} (from {party})")

    def _write(self, link: _Link, writer: fl.MetadataRecordBatchWriter) -> None:
        def write(frame: bytes) -> None:
            link.writing.beat()
            writer.write_metadata(frame)

        try:
            # The caller hears at once that it is through.
            write(BEAT)
            link.outbox.write_all(write, beat=self._heartbeat, ended=link.ended.is_set)
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            logger.debug("%s: to %s: %s", self._ledger.where, link.hello.party, error)
        if not link.ended.is_set():
            hang_up_peer(self._port, link.peer)

    def _admit(self, link: _Link) -> None:
        hello = link.hello
        with self._lock:
            if self._closing.is_set() or len(self._serving) >= self._max_links:
                raise WireError(
                    f"there are {len(self._serving)} links, no more are taken; close some"
                )
            old = self._links.get(hello.party)
            if old and old.hello.link == hello.link and old.hello.attempt >= hello.attempt:
                # It was held up on its way, and its caller has given it up.
                raise WireError(f"an older link of {hello.party} came after a newer one")
            self._links[hello.party] = link
            self._serving.add(link)
        self._ledger.count("links")
        if old:
            hang_up_peer(self._port, old.peer)

    def _leave(self, link: _Link) -> None:
        with self._lock:
            self._serving.discard(link)
            _add(self._sent, link.outbox)
            if self._links.get(link.hello.party) is link:
                del self._links[link.hello.party]

    def _look(self) -> None:
        while not self._closing.wait(self._silence / LOOKS):
            with self._lock:
                links = list(self._links.values())
            for link in links:
                heard, taken = link.reading.look(), link.writing.look()
                if not (heard and taken):
                    logger.warning(
                        "%s: %s %s for %g s; hung up",
                        self._ledger.where,
                        link.hello.party,
                        "took nothing" if heard else "said nothing",
                        self._silence,
                    )
                    hang_up_peer(self._port, link.peer)


def _add(sent: Counter[str], outbox: Outbox) -> None:
    sent["sent"] += outbox.sent
    sent["sent bytes"] += outbox.sent_bytes
    sent["dropped"] += outbox.dropped


def _next_frame(reader: fl.MetadataRecordBatchReader) -> bytes | None:
    """None when the other side has ended the link, or is gone."""
    try:
        chunk = reader.read_chunk()
    except (StopIteration, fl.FlightError):
        return None
    except ARROW_ERRORS as error:
        raise WireError(f"a link carries no frames ({type(error).__name__})") from None
    if chunk.data is not None or chunk.app_metadata is None:
        raise WireError("a link carries rows instead of frames")
    return chunk.app_metadata.to_pybytes()


MAX_TICKET = 64 << 10
MAX_SMALL = 64 << 10
"""Bytes of an action that need not wait for its turn."""
TURNS = 8
"""Larger actions that are taken in at once, if callers have an allowance."""
MAX_BATCH = 16 << 20
"""About so many bytes of a table go out in one piece."""
PATIENCE = 10.0
"""Seconds for calls under way when the server is closed."""


class LogServer:
    """Serves until it is closed. A context manager. Port 0 takes any free one: see `address`."""

    def __init__(
        self,
        address: tuple[str, int] | str,
        security: Security | None,
        service: Service,
        *,
        identities: Identities | None = None,
        max_message: int = MAX_MESSAGE,
        max_links: int = 64,
        heartbeat: float = 0.2,
        silence: float = 2.0,
        allowance: int | None = None,
    ) -> None:
        """`identities`: who may call as whom, if `security` demands certificates of clients. A link
        that says nothing for `silence` seconds, or takes nothing, is hung up. `allowance`: see
        `Front`, which stands before a server that has a token or TLS."""
        address = Address.of(address)
        security = security or OPEN
        check_address(address.host, security)
        self._service = service
        self._max_message = max_message
        self._ledger = Ledger(str(address))
        self._callers = Callers(
            service,
            self._ledger,
            identities if security.mutual else None,
            max_message=max_message,
            max_links=max_links,
            heartbeat=heartbeat,
            silence=silence,
        )
        self._is_closed = False
        self._front: Front | None = None
        self._turns = None if allowance is None else BoundedSemaphore(TURNS)
        try:
            if security.tls or security.token is not None:
                _check_keys(security)
                self._front = Front(address, security, self._ledger, allowance)
                location, port = self._front.location, self._front.port
                self._flight = _Flight(self, security, location)
                self._front.open()
            else:
                _check_free(address)
                self._flight = _Flight(self, security, address.location(tls=False))
                port = self._flight.port
        except (OSError, fl.FlightError, pa.ArrowException) as error:
            if self._front is not None:
                self._front.stop()
                self._front.close()
            why = getattr(error, "strerror", None) or error
            raise InvalidArgumentError(
                f"address: cannot serve on {address}: {why}; "
                "see whether another process has it, and whether the certificate and key are good"
            ) from None
        self.address = Address(address.host, port)
        self._ledger.where = str(self.address)
        self._callers.start(self.address.port)

    @property
    def counts(self) -> Counter[str]:
        """How many `links` were opened, `messages` and `bytes` came in, and went out on links
        (`sent`, `sent bytes`; `dropped`: messages that did not), calls were made (`reads`,
        `pushes`, `actions`), and how often the service `failed`."""
        return self._ledger.counts + self._callers.sent

    @property
    def refused(self) -> Counter[str]:
        """How often each thing was refused: a `token`, `ticket`, `link`, `message` ..."""
        return self._ledger.refused

    @property
    def parties(self) -> list[str]:
        """Who has a link now."""
        return self._callers.parties

    def close(self) -> None:
        """Hang up on everybody and free the port. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        self._callers.close()
        if self._front is not None:
            self._front.stop()
        ended = Thread(target=self._flight.shutdown, name="holdfast server end", daemon=True)
        ended.start()
        end = time.monotonic() + PATIENCE
        while ended.is_alive() and time.monotonic() < end:
            # gRPC would wait for the other sides to end their calls.
            hang_up_server(self.address.port)
            ended.join(0.02)
        if ended.is_alive():
            logger.error("%s: calls of the service have not ended; left alone", self.address)
        if self._front is not None:
            self._front.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse(self, what: str, why: object) -> None:
        """Count and log it."""
        self._ledger.refuse(what, why)

    def admit(self, context: fl.ServerCallContext) -> tuple[str, bytes]:
        """A call has shown the token: who makes it, and the name in its certificate."""
        peer: str = context.peer()
        return (peer, b"") if self._front is None else self._front.admit(peer)

    def read(self, ticket: bytes) -> fl.FlightDataStream:
        with self._ledger.answering("ticket"):
            if len(ticket) > MAX_TICKET:
                raise WireError(f"a ticket of {len(ticket)} bytes is larger than {MAX_TICKET}")
            rows = self._service.read(ticket)
            self._ledger.count("reads")
            if isinstance(rows, pa.Table):
                batches = iter(_in_pieces(rows))
                return fl.GeneratorStream(rows.schema, batches)
            return fl.GeneratorStream(rows.schema, self._batches(rows))

    def push(
        self,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        with self._ledger.answering("push"):
            stream = _stream_of(descriptor)
            while (batch := _next_batch(reader, self._max_message)) is not None:
                acknowledgement = self._service.push(stream, batch)
                self._ledger.count("pushes")
                # Whoever is gone will ask again.
                with suppress(fl.FlightError, pa.ArrowException, OSError):
                    writer.write(pa.py_buffer(acknowledgement))

    def take_turn(self, action: fl.Action) -> AbstractContextManager[object]:
        """Until it comes, what its caller has sent counts as held."""
        is_small = action.body.size <= MAX_SMALL
        return nullcontext() if self._turns is None or is_small else self._turns

    def act(self, action: fl.Action) -> list[bytes]:
        with self._ledger.answering("action"):
            if action.type == KNOCK:
                return []
            if len(action.type) > 255 or action.body.size > self._max_message:
                raise WireError("an action is too large")
            answer = self._service.act(action.type, action.body.to_pybytes())
            self._ledger.count("actions")
            return [answer]

    def flights(self) -> list[fl.FlightInfo]:
        with self._ledger.answering("list"):
            return [
                fl.FlightInfo(schema, fl.FlightDescriptor.for_path(stream), [], -1, -1)
                for stream, schema in self._service.streams().items()
            ]

    def flight(self, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        with self._ledger.answering("stream"):
            stream = _stream_of(descriptor)
            schema = self._service.streams().get(stream)
            if schema is None:
                raise WireError(f"there is no stream {stream!r} here")
            return fl.FlightInfo(schema, descriptor, [], -1, -1)

    def exchange(
        self,
        peer: str,
        certificate: bytes,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """Serve a link for as long as it lasts. `certificate`: the name in that of the caller."""
        with self._ledger.answering("link"):
            if descriptor.command != LINK:
                raise WireError("an exchange is no link")
            self._callers.serve(peer, certificate, reader, writer)

    def _batches(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._ledger.answering("ticket"):
            yield from rows


class _Flight(fl.FlightServerBase):
    """What Flight calls: the token was shown."""

    def __init__(self, server: LogServer, security: Security, location: str) -> None:
        # Calls come in before the next line is done.
        self._server = server
        super().__init__(location, middleware={"token": _Doorkeeper(server, security)})

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        peer, certificate = self._server.admit(context)
        self._server.exchange(peer, certificate, descriptor, reader, writer)

    def do_get(self, context: Any, ticket: Any) -> Any:
        self._server.admit(context)
        return self._server.read(ticket.ticket)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._server.admit(context)
        self._server.push(descriptor, reader, writer)

    def do_action(self, context: Any, action: Any) -> Any:
        with self._server.take_turn(action):
            self._server.admit(context)
            return self._server.act(action)

    def list_flights(self, context: Any, criteria: Any) -> Any:
        self._server.admit(context)
        return iter(self._server.flights())

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        self._server.admit(context)
        return self._server.flight(descriptor)


class _Doorkeeper(fl.ServerMiddlewareFactory):
    """Lets no call in without the token. What was read of it by then is bounded by the `Front`."""

    def __init__(self, server: LogServer, security: Security) -> None:
        super().__init__()
        self._server = server
        self._security = security

    def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> None:
        said = next((v for k, v in headers.items() if k.lower() == "authorization"), [None])[0]
        if isinstance(said, bytes):
            said = said.decode("utf-8", "surrogateescape")
        if not self._security.admits(said):
            self._server.refuse("token", "it is missing" if said is None else "it is wrong")
            raise fl.FlightUnauthenticatedError("the token is missing or wrong")


def _check_keys(security: Security) -> None:
    if security.tls and security.certificate is None:
        raise InvalidArgumentError(
            "security: a server needs certificate and key beside authority; give them"
        )


def _check_free(address: Address) -> None:
    """gRPC would share a port that is taken."""
    if address.port:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, end = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(end)
            probe.listen(1)


def _in_pieces(table: pa.Table) -> list[pa.RecordBatch]:
    each = max(1, table.nbytes // max(1, table.num_rows))
    return table.to_batches(max_chunksize=max(1, MAX_BATCH // each))


def _stream_of(descriptor: fl.FlightDescriptor) -> str:
    path = descriptor.path
    if not path or len(path) != 1 or len(path[0]) > 255:
        raise WireError("a call does not name one stream; give its name as the path")
    try:
        return path[0].decode()
    except UnicodeDecodeError:
        raise WireError("the name of a stream is not UTF-8") from None


def _next_batch(reader: fl.MetadataRecordBatchReader, limit: int) -> pa.RecordBatch | None:
    """None when there are no more, or the client is gone."""
    try:
        batch = reader.read_chunk().data
    except (StopIteration, fl.FlightError):
        return None
    except ARROW_ERRORS as error:
        raise WireError(f"a push carries no Arrow batches ({type(error).__name__})") from None
    if batch is None:
        raise WireError("a push carries something that is no rows")
    check_table(batch)
    if batch.nbytes > limit:
        raise WireError(
            f"a batch of {batch.nbytes} bytes is larger than {limit}; send smaller ones"
        )
    return batch
