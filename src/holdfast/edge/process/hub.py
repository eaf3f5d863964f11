"""Connections of one process, in one thread: listens, calls, sends and receives.

Whoever runs it calls `poll` again and again. A connection carries messages both ways, whoever
called; a node that is to be reached is called for ever, with pauses that grow to a bound. What
cannot be sent is dropped and counted: the protocol takes any message for lost and sends it again.

Nothing here grows without bound: input is read no faster than it is dealt with, output queues have
a limit, and callers that have not shown who they are have few connections, small frames and little
time. A message longer than a chunk goes in pieces, one such message at a time to each node; shorter
ones go between the pieces.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from holdfast.config.addresses import Address, parse_address
from holdfast.edge.machine.messages import Events
from holdfast.edge.process.connection import NONCE, Called, Caller, Connection, set_options
from holdfast.edge.process.frames import (
    CHUNK,
    LARGEST_FRAME,
    LARGEST_MESSAGE,
    Carried,
    chunks,
    decode,
    encode,
    frame,
)
from holdfast.edge.process.liveness import Probes
from holdfast.edge.process.security import Credentials, check_reach
from holdfast.errors import FrameError, InvalidArgumentError, StrangerError

QUEUE: Final = 4 << 20
"""Bytes that wait for one node; more is dropped."""
EARLY_QUEUE: Final = 64 << 10
"""The same while it is being called."""
PIECE: Final = 256 << 10
"""Bytes read of one connection before others have their turn."""
PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Seconds until a node is called again, by how often that failed in a row."""
PATIENCE: Final = 5.0
"""Seconds for both sides to show who they are."""
MOST_STRANGERS: Final = 64

logger = logging.getLogger(__name__)


class Hub:
    """`receive` gets every message with the name of its sender, proven by the key."""

    def __init__(
        self,
        name: str,
        credentials: Credentials,
        receive: Callable[[str, Carried], None],
        *,
        address: str | None = None,
        addresses: Mapping[str, str] | None = None,
        watched: Mapping[str, str] | None = None,
        ended: Callable[[str], None] | None = None,
        queue: int = QUEUE,
        largest: int = LARGEST_MESSAGE,
    ) -> None:
        """`address`: where to listen, if at all; `addresses`: of those that may be called. When one
        of the `watched` hangs up and its address refuses a call, `ended` is told."""
        self.name = name
        self.counts: Counter[str] = Counter()
        self.bytes_by_kind: Counter[str] = Counter()
        """That were sent, by the kind of message."""
        self._credentials = credentials
        self._receive = receive
        self._queue = queue
        self._largest = largest
        self._addresses = {other: parse_address(each) for other, each in (addresses or {}).items()}
        watching = {other: parse_address(each) for other, each in (watched or {}).items()}
        self._probes = Probes(name, watching, ended, self.counts)
        self._open: dict[str, list[Connection]] = {}
        """By node; the newest last, and used."""
        self._calls: dict[str, Connection] = {}
        """Those under way."""
        self._kept: set[str] = set()
        self._failures: Counter[str] = Counter()
        self._next_call: dict[str, float] = {}
        self._strangers: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._piece = bytearray(PIECE)
        self._encoded: tuple[Carried | None, bytes] = (None, b"")
        """What was sent last: what goes to several is encoded once."""
        self._server: socket.socket | None = None
        if address is not None:
            self._listen(parse_address(address))

    def _listen(self, address: Address) -> None:
        check_reach(address.host, self._credentials)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        server = socket.socket(family, socket.SOCK_STREAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(tuple(address))
            server.listen(128)
        except OSError as error:
            server.close()
            raise InvalidArgumentError(
                f"{self.name}: cannot listen at {address.host}:{address.port} ({error.strerror}); "
                "end what listens there, or give it another address"
            ) from error
        server.setblocking(False)
        self._server = server
        self._selector.register(server, selectors.EVENT_READ, None)

    # Sending

    def learn(self, addresses: Mapping[str, str]) -> None:
        """Where nodes are that the file does not name; what the file says stands."""
        for node, address in addresses.items():
            if address and node != self.name and node not in self._addresses:
                self._addresses[node] = parse_address(address)
                self._probes.watch(node, self._addresses[node])

    def keep(self, *nodes: str) -> None:
        """Call these until they answer, and again whenever they have hung up."""
        self._kept.update(node for node in nodes if node != self.name)

    def is_open(self, node: str) -> bool:
        return bool(self._open.get(node))

    def backlog(self, node: str) -> int:
        """Bytes that wait to be sent to it."""
        there = self._open.get(node)
        return there[-1].size if there else 0

    def send(self, to: str, message: Carried) -> bool:
        """Whether it is on its way."""
        connection = self._connection(to)
        if connection is None:
            self.counts["dropped"] += 1
            return False
        if message is not self._encoded[0]:
            try:
                self._encoded = message, encode(message, self._largest)
            except FrameError as error:
                self._tell_oversized(error)
                return False
        data = self._encoded[1]
        # Events are read in their order; what is long else may come after what is sent later.
        if len(data) > CHUNK and not isinstance(message, Events):
            if connection.bulk or not connection.is_open:
                self.counts["dropped"] += 1
                return False
            connection.bulk.extend(chunks(data))
            self._write(connection)
        elif connection.size + len(data) > (self._queue if connection.is_open else EARLY_QUEUE):
            self.counts["dropped"] += 1
            return False
        else:
            self._put(connection, data)
        self.counts["sent"] += 1
        self.bytes_by_kind[type(message).__name__] += len(data)
        return True

    def is_busy(self, node: str) -> bool:
        """Whether a long message is on its way to it: another one would not be taken."""
        there = self._open.get(node)
        return bool(there and there[-1].bulk)

    def _tell_oversized(self, error: FrameError) -> None:
        if not self.counts["oversized"]:
            logger.error("%s: cannot be sent and is left out: %s", self.name, error)
        self.counts["oversized"] += 1

    def _connection(self, to: str) -> Connection | None:
        there = self._open.get(to)
        if there:
            return there[-1]
        if to not in self._calls:
            self._call(to)
        return self._calls.get(to)

    def _put(self, connection: Connection, data: bytes) -> None:
        empty = not connection.waiting
        connection.put(data)
        # Only what follows the handshake waits for it to end.
        if connection.is_open and empty:
            self._write(connection)

    # Calling

    def _call(self, node: str) -> None:
        address = self._addresses.get(node)
        if address is None or node == self.name:
            return
        if time.monotonic() < self._next_call.get(node, 0.0):
            return
        check_reach(address.host, self._credentials)
        nonce = os.urandom(NONCE)
        handshake = Caller(self.name, node, self._credentials.key, nonce)
        try:
            family, kind, proto, _, end = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )[0]
            sock = socket.socket(family, kind, proto)
            set_options(sock)
            with suppress(BlockingIOError):
                sock.connect(end)
        except OSError:
            self._failed(node)
            return
        connection = Connection(sock, node, handshake)
        self._calls[node] = connection
        self._look_for(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _failed(self, node: str) -> None:
        self._calls.pop(node, None)
        self._failures[node] += 1
        pause = PAUSES[min(self._failures[node], len(PAUSES)) - 1]
        self._next_call[node] = time.monotonic() + pause

    def _connected(self, connection: Connection) -> None:
        """TCP says so, for good or bad."""
        error = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._close(connection, None)
            return
        connection.connecting = False
        context = self._credentials.client
        if context is not None:
            assert connection.peer is not None
            self._selector.unregister(connection.sock)
            connection.events = 0
            try:
                connection.sock = context.wrap_socket(
                    connection.sock,
                    server_hostname=self._addresses[connection.peer].host,
                    do_handshake_on_connect=False,
                )
            except OSError as error:
                self._close(connection, f"TLS: {error}")
                return
            connection.securing = True
        self._look_for(connection, selectors.EVENT_READ)
        if connection.securing:
            self._secure(connection)

    def _accept(self) -> None:
        assert self._server is not None
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            if len(self._strangers) >= MOST_STRANGERS:
                self.counts["refused"] += 1
                sock.close()
                continue
            try:
                set_options(sock)
                context = self._credentials.server
                if context is not None:
                    sock = context.wrap_socket(
                        sock, server_side=True, do_handshake_on_connect=False
                    )
            except OSError as error:
                # The caller has hung up already.
                self.counts["refused"] += 1
                logger.info(
                    "%s: a caller is gone before it has said who it is: %s", self.name, error
                )
                sock.close()
                continue
            handshake = Called(self.name, self._credentials.key, os.urandom(NONCE))
            connection = Connection(sock, None, handshake)
            self._strangers.add(connection)
            self._look_for(connection, selectors.EVENT_READ)
            if connection.securing:
                self._secure(connection)
            else:
                self._say(connection, handshake.opening())

    def _secure(self, connection: Connection) -> None:
        """One step of TLS."""
        assert isinstance(connection.sock, ssl.SSLSocket)
        try:
            connection.sock.do_handshake()
        except ssl.SSLWantReadError:
            self._look_for(connection, selectors.EVENT_READ)
            return
        except ssl.SSLWantWriteError:
            self._look_for(connection, selectors.EVENT_WRITE)
            return
        except OSError as error:
            self._close(connection, f"TLS: {error}")
            return
        connection.securing = False
        self._look_for(connection, selectors.EVENT_READ)
        if isinstance(connection.handshake, Called):
            self._say(connection, connection.handshake.opening())

    def _say(self, connection: Connection, data: bytes) -> None:
        """A word of the handshake goes before everything that waits."""
        try:
            sent = connection.sock.send(frame(data))
        except OSError as error:
            self._close(connection, str(error))
            return
        if sent < len(data) + 4:
            # A few hundred bytes into an empty buffer: whoever does not take them is no node.
            self._close(connection, "the first word was not taken")

    def _greet(self, connection: Connection, data: bytes) -> None:
        handshake = connection.handshake
        assert handshake is not None
        answer = handshake.receive(data)
        if answer is not None:
            self._say(connection, answer)
        if connection.sock.fileno() < 0:
            return
        if isinstance(handshake, Called):
            connection.peer = handshake.peer
            self._strangers.discard(connection)
        elif not handshake.done:
            return
        assert connection.peer is not None
        connection.handshake = None
        connection.frames.limit = LARGEST_FRAME
        if connection.is_caller:
            self._calls.pop(connection.peer, None)
        self._failures.pop(connection.peer, None)
        self._next_call.pop(connection.peer, None)
        self._open.setdefault(connection.peer, []).append(connection)
        if connection.waiting:
            self._write(connection)

    # The selector

    def _look_for(self, connection: Connection, events: int) -> None:
        if connection.events == events:
            return
        if connection.events == 0:
            self._selector.register(connection.sock, events, connection)
        else:
            self._selector.modify(connection.sock, events, connection)
        connection.events = events

    def poll(self, timeout: float) -> None:
        """Deal with what is there; wait up to `timeout` seconds for something to be."""
        for node in self._kept:
            if node not in self._open and node not in self._calls:
                self._call(node)
        again = self._probes.due
        if again is not None:
            self._probes.wake(self.is_open)
            timeout = min(timeout, again)
        for key, mask in self._selector.select(max(timeout, 0.0)):
            connection = key.data
            if connection is None:
                self._accept()
            elif connection.connecting:
                self._connected(connection)
            elif connection.securing:
                self._secure(connection)
            else:
                if mask & selectors.EVENT_WRITE:
                    self._write(connection)
                if mask & selectors.EVENT_READ and connection.sock.fileno() >= 0:
                    self._read(connection)
        self._end_slow_ones()

    def _end_slow_ones(self) -> None:
        latest = time.monotonic() - PATIENCE
        slow = [each for each in (*self._strangers, *self._calls.values()) if each.since < latest]
        for connection in slow:
            self._close(connection, "has not shown who it is in time")

    def _read(self, connection: Connection) -> None:
        try:
            while (count := self._receive_bytes(connection)) is not None:
                if not count:
                    self._close(connection, None)
                    return
                self.counts["bytes_in"] += count
                self._take_frames(connection)
                if not connection.has_more:
                    return
        except StrangerError as error:
            self.counts["refused"] += 1
            self._close(connection, str(error))
        except FrameError as error:
            self.counts["malformed"] += 1
            self._close(connection, str(error))

    def _receive_bytes(self, connection: Connection) -> int | None:
        """As `Connection.read`; an error of the connection alone ends it. Those of whoever deals
        with what has come are none of it."""
        try:
            return connection.read(self._piece)
        except OSError as error:
            self._close(connection, str(error))
            return None

    def _take_frames(self, connection: Connection) -> None:
        while connection.sock.fileno() >= 0:
            data = connection.frames.next()
            if data is None:
                return
            if connection.handshake is not None:
                self._greet(connection, data)
                continue
            assert connection.peer is not None
            whole = connection.assembly.take(data)
            if whole is not None:
                self.counts["received"] += 1
                self._receive(connection.peer, decode(whole))

    def _write(self, connection: Connection) -> None:
        if not connection.is_open:
            return
        try:
            self.counts["bytes_out"] += connection.write()
        except OSError as error:
            self._close(connection, str(error))
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.waiting else 0)
        self._look_for(connection, wanted)

    def _close(self, connection: Connection, why: str | None) -> None:
        if why is not None:
            logger.info("%s: connection with %s ends: %s", self.name, connection.peer, why)
        if connection.events:
            self._selector.unregister(connection.sock)
            connection.events = 0
        connection.sock.close()
        self._strangers.discard(connection)
        peer = connection.peer
        if peer is None:
            return
        if self._calls.get(peer) is connection:
            self._failed(peer)
        there = self._open.get(peer, [])
        if connection in there:
            there.remove(connection)
            if not there:
                del self._open[peer]
                self._probes.probe(peer)

    def drop(self, node: str) -> None:
        """Hang up on a node: what waits for it is of no use any more."""
        for connection in list(self._open.get(node, [])):
            self._close(connection, None)

    @property
    def peers(self) -> list[str]:
        """Who is connected."""
        return sorted(self._open)

    def flush(self, seconds: float) -> None:
        """Let what waits go out, for a while."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(
            each.size or each.bulk for there in self._open.values() for each in there
        ):
            self.poll(0.01)

    def close(self) -> None:
        for connection in (
            *self._strangers,
            *self._calls.values(),
            *(each for there in self._open.values() for each in there),
        ):
            connection.sock.close()
        if self._server is not None:
            self._server.close()
        self._selector.close()
