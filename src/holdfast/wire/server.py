"""The Flight server of a party: links to its readers and peers, rows by ticket, pushed rows.

`LogServer` carries; a `Service`, which knows what it is about, decides. What comes from outside is
checked here: whatever is refused is logged and counted, and reaches no service.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.protocol.messages import Message
from holdfast.wire.addresses import Address, hang_up_peer, hang_up_server
from holdfast.wire.codec import MAX_MESSAGE, decode
from holdfast.wire.errors import WireError
from holdfast.wire.frames import BEAT, Assembly, Hello
from holdfast.wire.identities import Identities
from holdfast.wire.outbox import Outbox
from holdfast.wire.pulse import LOOKS, Pulse, check_times
from holdfast.wire.security import OPEN, Security, check_address
from holdfast.wire.untrusted import ARROW_ERRORS, check_table

__all__ = ["LINK", "LogServer", "Service"]

LINK = b"holdfast link"
"""The command by which a DoExchange is a link."""
MAX_TICKET = 64 << 10
MAX_BATCH = 16 << 20
"""About so many bytes of a table go out in one piece."""
PATIENCE = 10.0
"""Seconds for calls under way when the server is closed."""

logger = logging.getLogger(__name__)


class Service(Protocol):
    """What a server serves. Called by many threads at a time; those of one link come in order.

    A HoldfastError is told to the client, anything else that is raised is not. Nothing may wait
    for long: closing the server waits for it.
    """

    def opened(self, party: str, outbox: Outbox) -> None:
        """A party has opened a link: what is put into the outbox goes there. A new link of a party
        replaces its old one, whose end may be told after this."""

    def received(self, party: str, message: Message) -> None: ...

    def closed(self, party: str, outbox: Outbox) -> None:
        """The link with this outbox is gone."""

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        """The rows that a ticket stands for."""

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        """Take in rows; what is answered is the acknowledgement that the client gets."""

    def act(self, name: str, body: bytes) -> bytes: ...

    def streams(self) -> Mapping[str, pa.Schema]: ...


class _Link:
    """The server's end of a link."""

    def __init__(self, hello: Hello, peer: str, outbox: Outbox) -> None:
        self.hello = hello
        self.peer = peer
        self.outbox = outbox
        self.reading = Pulse()
        self.writing = Pulse()
        self.ended = Event()


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
    ) -> None:
        """`identities`: who may call as whom, if `security` demands certificates of clients. A link
        that says nothing for `silence` seconds, or takes nothing, is hung up."""
        address = Address.of(address)
        security = security or OPEN
        check_address(address.host, security)
        check_times(heartbeat, silence)
        self._service = service
        self._identities = identities if security.mutual else None
        self._max_message = max_message
        self._max_links = max_links
        self._heartbeat = heartbeat
        self._silence = silence
        self._lock = Lock()
        self._links: dict[str, _Link] = {}
        self._serving: set[_Link] = set()
        """Links whose threads have not ended, be they replaced."""
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._closing = Event()
        self._flight = _listen(address, security, self)
        self.address = Address(address.host, self._flight.port)
        self._watch = Thread(target=self._look, name="holdfast server watch", daemon=True)
        self._watch.start()

    @property
    def counts(self) -> Counter[str]:
        """How many `links` were opened, `messages` and `bytes` came in, and went out on links
        (`sent`, `sent bytes`; `dropped`: messages that did not), calls were made (`reads`,
        `pushes`, `actions`), and how often the service `failed`."""
        with self._lock:
            counts = Counter(self._counts)
            for link in self._serving:
                _add_outbox(counts, link.outbox)
        return counts

    @property
    def refused(self) -> Counter[str]:
        """How often each thing was refused: a `token`, `ticket`, `link`, `message` ..."""
        with self._lock:
            return Counter(self._refused)

    @property
    def parties(self) -> list[str]:
        """Who has a link now."""
        with self._lock:
            return sorted(self._links)

    def close(self) -> None:
        """Hang up on everybody and free the port. May be called again."""
        if self._closing.is_set():
            return
        self._closing.set()
        ended = Thread(target=self._flight.shutdown, name="holdfast server end", daemon=True)
        ended.start()
        end = time.monotonic() + PATIENCE
        while ended.is_alive() and time.monotonic() < end:
            # gRPC would wait for the other sides to end their calls.
            hang_up_server(self.address.port)
            ended.join(0.02)
        if ended.is_alive():
            logger.error("%s: calls of the service have not ended; left alone", self.address)
        self._watch.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse(self, what: str, why: object) -> None:
        """Count and log it."""
        with self._lock:
            self._refused[what] += 1
        logger.warning("%s: refused %s: %s", self.address, what, why)

    def read(self, ticket: bytes) -> fl.FlightDataStream:
        with self._answering("ticket"):
            if len(ticket) > MAX_TICKET:
                raise WireError(f"a ticket of {len(ticket)} bytes is larger than {MAX_TICKET}")
            rows = self._service.read(ticket)
            self._count("reads")
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
        with self._answering("push"):
            stream = _stream_of(descriptor)
            while (batch := _next_batch(reader, self._max_message)) is not None:
                acknowledgement = self._service.push(stream, batch)
                self._count("pushes")
                # Whoever is gone will ask again.
                with suppress(fl.FlightError, pa.ArrowException, OSError):
                    writer.write(pa.py_buffer(acknowledgement))

    def act(self, action: fl.Action) -> list[bytes]:
        with self._answering("action"):
            if len(action.type) > 255 or action.body.size > self._max_message:
                raise WireError("an action is too large")
            answer = self._service.act(action.type, action.body.to_pybytes())
            self._count("actions")
            return [answer]

    def flights(self) -> list[fl.FlightInfo]:
        with self._answering("list"):
            return [
                fl.FlightInfo(schema, fl.FlightDescriptor.for_path(stream), [], -1, -1)
                for stream, schema in self._service.streams().items()
            ]

    def flight(self, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        with self._answering("stream"):
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
        with self._answering("link"):
            if descriptor.command != LINK:
                raise WireError("an exchange is no link")
            frame = _next_frame(reader)
            if frame is None:
                return
            link = _Link(Hello.parse(frame), peer, Outbox())
            if self._identities is not None:
                self._identities.check(link.hello.party, certificate.decode("utf-8", "replace"))
            self._admit(link)
            try:
                self._serve(link, reader, writer)
            finally:
                self._leave(link)

    def _serve(
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
            with self._excusing():
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
                hang_up_peer(self.address.port, link.peer)
                writing.join(0.2)
            with self._excusing():
                self._service.closed(party, link.outbox)

    def _take(self, party: str, data: bytes) -> None:
        try:
            message = decode(data, self._max_message)
        except WireError as error:
            self.refuse("message", f"{error} (from {party})")
            return
        self._count("messages")
        self._count("bytes", len(data))
        with self._excusing():
            self._service.received(party, message)

    def _write(self, link: _Link, writer: fl.MetadataRecordBatchWriter) -> None:
        def write(frame: bytes) -> None:
            link.writing.beat()
            writer.write_metadata(frame)

        try:
            # The caller hears at once that it is through.
            write(BEAT)
            link.outbox.write_all(write, beat=self._heartbeat, ended=link.ended.is_set)
        except (fl.FlightError, pa.ArrowException, OSError) as error:
            logger.debug("%s: to %s: %s", self.address, link.hello.party, error)
        if not link.ended.is_set():
            hang_up_peer(self.address.port, link.peer)

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
            self._counts["links"] += 1
        if old:
            hang_up_peer(self.address.port, old.peer)

    def _leave(self, link: _Link) -> None:
        with self._lock:
            self._serving.discard(link)
            _add_outbox(self._counts, link.outbox)
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
                        self.address,
                        link.hello.party,
                        "took nothing" if heard else "said nothing",
                        self._silence,
                    )
                    hang_up_peer(self.address.port, link.peer)

    def _batches(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._answering("ticket"):
            yield from rows

    def _count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self._counts[what] += by

    @contextmanager
    def _answering(self, what: str) -> Iterator[None]:
        """Errors as a client may see them. Only Flight's own cross without a traceback in them."""
        try:
            yield
        except HoldfastError as error:
            self.refuse(what, error)
            raise fl.FlightServerError(str(error)[:300]) from None
        except Exception:
            self._count("failed")
            logger.exception("%s: %s failed", self.address, what)
            raise fl.FlightInternalError("failed inside; its log says why") from None

    @contextmanager
    def _excusing(self) -> Iterator[None]:
        """A service that fails does not take the link with it."""
        try:
            yield
        except Exception:
            self._count("failed")
            logger.exception("%s: the service failed", self.address)


class _Flight(fl.FlightServerBase):
    """What Flight calls."""

    def __init__(self, server: LogServer, location: str, **options: Any) -> None:
        # Calls come in before the next line is done.
        self._server = server
        super().__init__(location, **options)

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._server.exchange(context.peer(), context.peer_identity(), descriptor, reader, writer)

    def do_get(self, context: Any, ticket: Any) -> Any:
        return self._server.read(ticket.ticket)

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._server.push(descriptor, reader, writer)

    def do_action(self, context: Any, action: Any) -> Any:
        return self._server.act(action)

    def list_flights(self, context: Any, criteria: Any) -> Any:
        return iter(self._server.flights())

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        return self._server.flight(descriptor)


class _Doorkeeper(fl.ServerMiddlewareFactory):
    """Lets no call in without the token, before anything of it is read."""

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


def _listen(address: Address, security: Security, server: LogServer) -> _Flight:
    options: dict[str, Any] = {"middleware": {"token": _Doorkeeper(server, security)}}
    if security.tls:
        if security.certificate is None:
            raise InvalidArgumentError(
                "security: a server needs certificate and key beside authority; give them"
            )
        options |= {
            "tls_certificates": [(security.certificate, security.key)],
            "verify_client": security.mutual,
            "root_certificates": security.authority if security.mutual else None,
        }
    try:
        _check_free(address)
        return _Flight(server, address.location(tls=security.tls), **options)
    except (OSError, fl.FlightError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(
            f"address: cannot serve on {address}: {why}; "
            "see whether another process has it, and whether the certificate and key are good"
        ) from None


def _add_outbox(counts: Counter[str], outbox: Outbox) -> None:
    counts["sent"] += outbox.sent
    counts["sent bytes"] += outbox.sent_bytes
    counts["dropped"] += outbox.dropped


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
