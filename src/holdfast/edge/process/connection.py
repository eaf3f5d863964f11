"""One connection of a hub: handshake by a shared key, and what waits to be sent."""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.edge.process.frames import Assembly, Frames
from holdfast.errors import StrangerError

# How two nodes make sure of each other: both show that they know the key, without saying it.
#
#     server  → magic, its nonce
#     client  → its name, whom it calls, its nonce, HMAC(key, "client", both nonces, both names)
#     server  → its name, HMAC(key, "server", both nonces, both names)
#
# Nonces are new for every connection, so what was overheard opens none; each side's word differs,
# so none can be sent back to whom it came from. Without a key the same is said, with an empty one.
# No socket is touched here.

MAGIC: Final = b"holdfast-edge-1"
NONCE: Final = 32
LONGEST_NAME: Final = 200


class _Challenge(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    magic: bytes
    nonce: bytes


class _Hello(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    called: str
    nonce: bytes
    proof: bytes


class _Welcome(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    name: str
    proof: bytes


_encode = msgspec.msgpack.Encoder().encode
_challenge = msgspec.msgpack.Decoder(_Challenge)
_hello = msgspec.msgpack.Decoder(_Hello)
_welcome = msgspec.msgpack.Decoder(_Welcome)


def _prove(key: bytes, side: bytes, nonces: tuple[bytes, bytes], names: tuple[str, str]) -> bytes:
    # Length before each part: no two different sets of parts are the same bytes.
    said = b"".join(
        len(part).to_bytes(4, "big") + part
        for part in (MAGIC, side, *nonces, *(name.encode() for name in names))
    )
    return hmac.digest(key, said, hashlib.sha256)


class Called:
    """The side that was called. `opening` is what it says first."""

    def __init__(self, name: str, key: bytes, nonce: bytes) -> None:
        self.peer: str | None = None
        """Who calls, once that is proven."""
        self._name = name
        self._key = key
        self._nonce = nonce

    def opening(self) -> bytes:
        return _encode(_Challenge(MAGIC, self._nonce))

    def receive(self, data: bytes) -> bytes:
        """What to answer to the caller's word; raises StrangerError."""
        try:
            hello = _hello.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StrangerError(f"the caller's word makes no sense ({error})") from None
        if not hello.name or len(hello.name) > LONGEST_NAME or len(hello.nonce) != NONCE:
            raise StrangerError("the caller has no name, or no nonce")
        nonces, names = (self._nonce, hello.nonce), (hello.name, hello.called)
        right = hmac.compare_digest(hello.proof, _prove(self._key, b"client", nonces, names))
        if not right:
            raise StrangerError("the caller does not know the key; give all nodes the same")
        if hello.called != self._name:
            raise StrangerError("the caller wants another node; compare the addresses")
        self.peer = hello.name
        return _encode(_Welcome(self._name, _prove(self._key, b"server", nonces, names)))


class Caller:
    """The side that calls."""

    def __init__(self, name: str, called: str, key: bytes, nonce: bytes) -> None:
        self.done = False
        self._name = name
        self._called = called
        self._key = key
        self._nonce = nonce
        self._nonces: tuple[bytes, bytes] | None = None

    def receive(self, data: bytes) -> bytes | None:
        """What to answer, None when all is said; raises StrangerError."""
        names = (self._name, self._called)
        try:
            if self._nonces is None:
                challenge = _challenge.decode(data)
                if challenge.magic != MAGIC or len(challenge.nonce) != NONCE:
                    raise StrangerError("there is no node of this version; compare the addresses")
                self._nonces = (challenge.nonce, self._nonce)
                proof = _prove(self._key, b"client", self._nonces, names)
                return _encode(_Hello(self._name, self._called, self._nonce, proof))
            welcome = _welcome.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StrangerError(f"the other's word makes no sense ({error})") from None
        right = hmac.compare_digest(
            welcome.proof, _prove(self._key, b"server", self._nonces, names)
        )
        if welcome.name != self._called or not right:
            raise StrangerError("the other does not know the key; give all nodes the same")
        self.done = True
        return None


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
