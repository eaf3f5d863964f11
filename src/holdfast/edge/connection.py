"""One connection of a hub, from its first byte on: who is there, and what waits to be sent."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import Final

from holdfast.edge.frames import Assembly, Frames
from holdfast.edge.handshake import Called, Caller

__all__ = ["Connection", "set_options"]

SILENCE: Final = 15_000
"""Milliseconds that the other side may take nothing."""
PIECES_AT_ONCE: Final = 32


def set_options(sock: socket.socket) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine that is gone without a word, or takes nothing, is called anew some day.
    with suppress(AttributeError, OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE)


class Connection:
    def __init__(self, sock: socket.socket, peer: str | None, handshake: Called | Caller) -> None:
        self.sock = sock
        self.peer = peer
        """Who is there; None until a caller has proven it."""
        self.handshake: Called | Caller | None = handshake
        self.is_caller = isinstance(handshake, Caller)
        self.connecting = self.is_caller
        self.securing = isinstance(sock, ssl.SSLSocket)
        self.since = time.monotonic()
        self.frames = Frames()
        self.waiting: deque[memoryview] = deque()
        self.size = 0
        """Bytes that wait."""
        self.bulk: deque[tuple[bytes, memoryview]] = deque()
        """The rest of a long message, in chunks: each goes when nothing else waits."""
        self.assembly = Assembly()
        self.events = 0
        """What the selector looks for."""

    @property
    def is_open(self) -> bool:
        return self.handshake is None

    def put(self, data: bytes | memoryview) -> None:
        self.waiting.append(memoryview(data))
        self.size += len(data)

    def write(self) -> int:
        """Send what waits, as far as it is taken now; how many bytes. Raises OSError."""
        before, waiting, sock = self.size, self.waiting, self.sock
        try:
            while waiting or self.bulk:
                if not waiting:
                    for piece in self.bulk.popleft():
                        before += len(piece)
                        self.put(piece)
                if isinstance(sock, ssl.SSLSocket):
                    sent = sock.send(waiting[0])
                else:
                    pieces = [waiting[at] for at in range(min(len(waiting), PIECES_AT_ONCE))]
                    sent = sock.sendmsg(pieces)
                self._drop(sent)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        return before - self.size

    def _drop(self, sent: int) -> None:
        self.size -= sent
        while sent and self.waiting:
            first = self.waiting[0]
            if sent < len(first):
                self.waiting[0] = first[sent:]
                return
            sent -= len(first)
            self.waiting.popleft()

    def read(self, into: bytearray) -> int | None:
        """How many bytes have come: 0 if the other side has hung up, None if nothing is there.
        Raises OSError."""
        try:
            count = self.sock.recv_into(into)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        if count:
            self.frames.feed(memoryview(into)[:count])
        return count

    @property
    def has_more(self) -> bool:
        """Whether there is more that wakes no selector, for TLS has decoded it already."""
        sock = self.sock
        return isinstance(sock, ssl.SSLSocket) and sock.fileno() >= 0 and bool(sock.pending())
