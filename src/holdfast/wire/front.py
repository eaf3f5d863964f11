"""The front of a Flight server: bounds the bytes of callers that have not shown the token yet.

gRPC reads a call as a whole before anybody can refuse it, and Flight gives no way to bound that. So
the front listens where others call and passes their bytes on to the Flight server behind it, which
listens on a Unix socket that nobody else can open. Of a connection it takes `FIRST` bytes, and more
only when a call of it was admitted. It ends TLS: what comes from beyond this machine is encrypted
up to here. Without TLS bytes are passed on in the kernel.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Lock, Thread, current_thread
from typing import Any, Final

from holdfast.wire.addresses import Address
from holdfast.wire.ledger import Ledger
from holdfast.wire.security import Security

__all__ = ["FIRST", "KNOCK", "Front"]

FIRST: Final = 256 << 10
"""Bytes that a caller may send until a call of it is admitted."""
KNOCK: Final = "knock"
"""The action by which a caller shows the token before it sends more."""
MOST_STRANGERS: Final = 32
"""Connections of which no call was admitted yet."""
MOST_CALLERS: Final = 1024
PATIENCE_S: Final = 10.0
"""Until a call must have been admitted."""
STALL_S: Final = 5.0
"""For Flight to take in what a caller has sent, when it has used up its bytes."""
_PIECE: Final = 1 << 20
_STRANGERS_PIECE: Final = 64 << 10
_TLS_PIECE: Final = 256 << 10
_BACKLOG: Final = 128


class _Caller:
    """One connection: to the caller, and to the Flight server behind the front."""

    def __init__(
        self, near: socket.socket, far: socket.socket, host: str, peer: str, stall: float
    ) -> None:
        self.near = near
        self.far = far
        self._stall = stall
        self.host = host
        self.peer = peer
        """As gRPC would name it."""
        self.identity = b""
        """The name in its certificate."""
        self.since = time.monotonic()
        self.is_admitted = False
        self._left: int | None = FIRST
        """Bytes that it may send; None for any number."""
        self._change = Condition()
        self.is_over = False

    def admit(self, allowance: int | None) -> None:
        """Something of what it has sent was taken in: it may send so much more."""
        with self._change:
            self.is_admitted = True
            self._left = allowance
            self._change.notify_all()

    def room(self, piece: int) -> int:
        """Bytes that may be read of it now, up to a piece; 0 if it has used up its bytes, and
        nothing of them is taken in for a while."""
        with self._change:
            self._change.wait_for(lambda: self._left is None or self._left > 0, self._stall)
            left = self._left
        if left is None:
            return piece
        return min(left, piece if self.is_admitted else _STRANGERS_PIECE)

    def spend(self, count: int) -> None:
        with self._change:
            if self._left is not None:
                self._left -= min(count, self._left)

    def hang_up(self) -> None:
        self.is_over = True
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Front:
    """Listens from its making on, and serves from `open` on."""

    def __init__(
        self,
        address: Address,
        security: Security,
        ledger: Ledger,
        allowance: int | None = None,
        *,
        patience: float = PATIENCE_S,
        stall: float = STALL_S,
    ) -> None:
        """`allowance`: bytes that an admitted caller may send until a call of it begins; None for
        any number. Raises OSError for an address or certificates that are no good."""
        self._patience = patience
        self._stall = stall
        self._ledger = ledger
        self._allowance = allowance
        self._tls = _context(security) if security.tls else None
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self._behind: int | None = None
        self._lock = Lock()
        self._callers: dict[str, _Caller] = {}
        """By the name that gRPC gives to a connection of the front."""
        self._threads: set[Thread] = set()
        self._is_closed = False
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._server = socket.create_server(
                (address.host, address.port), family=family, backlog=_BACKLOG
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.port: int = self._server.getsockname()[1]
        self._accepting = Thread(target=self._accept, name="holdfast front", daemon=True)

    @property
    def location(self) -> str:
        """Where the Flight server is to listen."""
        return f"grpc+unix://{self._folder / 'flight'}"

    def open(self) -> None:
        """The Flight server listens."""
        path = self._folder / "flight"
        # The socket is reached by this descriptor alone, and nothing is left behind by `kill -9`.
        self._behind = os.open(path, os.O_PATH | os.O_CLOEXEC)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._accepting.start()

    def admit(self, name: str) -> tuple[str, bytes]:
        """A call of a connection was admitted: who it is, and the name in its certificate."""
        with self._lock:
            caller = self._callers.get(name)
        if caller is None:
            return name, b""
        caller.admit(self._allowance)
        return caller.peer, caller.identity

    def stop(self) -> None:
        """Take no more callers."""
        self._is_closed = True
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def close(self) -> None:
        """Hang up on everybody; after `stop`, when the Flight server has ended."""
        if self._accepting.ident is not None:
            self._accepting.join()
        with self._lock:
            callers, threads = list(self._callers.values()), list(self._threads)
        for caller in callers:
            caller.hang_up()
        for thread in threads:
            thread.join()
        if self._behind is not None:
            os.close(self._behind)
            self._behind = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while not self._is_closed:
            with self._lock:
                has_strangers = any(not each.is_admitted for each in self._callers.values())
            try:
                self._server.settimeout(min(1.0, self._patience) if has_strangers else None)
                near, end = self._server.accept()
            except TimeoutError:
                self._end_strangers()
                continue
            except OSError:
                if not self._is_closed:
                    # Too many open files, for instance: it may pass.
                    time.sleep(0.05)
                continue
            self._end_strangers()
            with suppress(OSError):
                self._take(near, str(end[0]), int(end[1]))

    def _take(self, near: socket.socket, host: str, port: int) -> None:
        far = socket.socket(socket.AF_UNIX)
        try:
            near.settimeout(None)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._callers) >= MOST_CALLERS:
                raise OSError("there are too many connections")
            # A name of its own, by which gRPC tells connections apart.
            far.bind("")
            name = f"unix-abstract:{far.getsockname().decode('ascii')[1:]}"
            peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
            caller = _Caller(near, far, host, peer, self._stall)
            thread = Thread(
                target=self._serve, args=(name, caller), name=f"holdfast front {peer}", daemon=True
            )
            with self._lock:
                self._callers[name] = caller
                self._threads.add(thread)
            thread.start()
        except BaseException:
            near.close()
            far.close()
            raise

    def _serve(self, name: str, caller: _Caller) -> None:
        try:
            # Whichever side hangs up, the other one hears of it.
            with suppress(OSError):
                caller.far.connect(f"/proc/self/fd/{self._behind}")
                self._carry(caller)
        finally:
            caller.hang_up()
            caller.near.close()
            caller.far.close()
            with self._lock:
                del self._callers[name]
                self._threads.discard(current_thread())

    def _carry(self, caller: _Caller) -> None:
        session = None
        if self._tls is not None:
            session = _Session(self._tls, caller)
            session.shake_hands()
        outwards = Thread(
            target=_outwards, args=(caller, session), name=f"holdfast front to {caller.peer}"
        )
        outwards.daemon = True
        outwards.start()
        try:
            if _inwards(caller, session) and not caller.is_over:
                self._ledger.refuse(
                    "flood", f"{caller.peer} has sent more than a caller may before it is let in"
                )
        finally:
            caller.hang_up()
            outwards.join()

    def _end_strangers(self) -> None:
        """End those that wait too long, and of too many the oldest of the host that has most."""
        with self._lock:
            strangers = [each for each in self._callers.values() if not each.is_admitted]
        now = time.monotonic()
        ended = [each for each in strangers if now - each.since > self._patience]
        others = [each for each in strangers if now - each.since <= self._patience]
        if len(others) > MOST_STRANGERS:
            [(host, _)] = Counter(each.host for each in others).most_common(1)
            ended.append(next(each for each in others if each.host == host))
        for each in ended:
            if not each.is_over:
                self._ledger.refuse("stranger", f"{each.peer} has made no call that was let in")
                each.hang_up()


class _Session:
    """TLS of one connection. One thread reads and one writes, but not at the same time."""

    def __init__(self, context: ssl.SSLContext, caller: _Caller) -> None:
        self._caller = caller
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_side=True)
        self._lock = Lock()
        self._sending = Lock()
        """Held from encryption to sending: records go in their order."""

    def shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                room = self._caller.room(_STRANGERS_PIECE)
                data = self._caller.near.recv(room) if room else b""
                if not data:
                    raise ConnectionResetError from None
                self._caller.spend(len(data))
                self._came.write(data)
            except ssl.SSLError:
                with suppress(OSError):
                    self._flush()
                raise
        self._flush()
        self._caller.identity = _name_in(self._tls.getpeercert())

    def read(self, data: bytes) -> bytes:
        """What is in bytes that came."""
        found = []
        with self._lock:
            self._came.write(data)
            with suppress(ssl.SSLWantReadError):
                while piece := self._tls.read(_TLS_PIECE):
                    found.append(piece)
            has_answer = self._goes.pending > 0
        if has_answer:
            self._flush()
        return b"".join(found)

    def write(self, data: memoryview) -> None:
        with self._sending:
            with self._lock:
                self._tls.write(data)
                encrypted = self._goes.read()
            self._caller.near.sendall(encrypted)

    def _flush(self) -> None:
        with self._sending:
            with self._lock:
                encrypted = self._goes.read()
            self._caller.near.sendall(encrypted)


def _inwards(caller: _Caller, session: _Session | None) -> bool:
    """True if it has used up its bytes; returns when the caller has hung up."""
    if session is not None:
        while room := caller.room(_TLS_PIECE):
            if not (data := caller.near.recv(room)):
                return False
            caller.spend(len(data))
            caller.far.sendall(session.read(data))
        return True
    with _pipe() as (out, into):
        while room := caller.room(_PIECE):
            if not (count := os.splice(caller.near.fileno(), into, room)):
                return False
            caller.spend(count)
            while count:
                count -= os.splice(out, caller.far.fileno(), count)
    return True


def _outwards(caller: _Caller, session: _Session | None) -> None:
    try:
        with suppress(OSError):
            if session is not None:
                piece = memoryview(bytearray(_TLS_PIECE))
                while count := caller.far.recv_into(piece):
                    session.write(piece[:count])
                return
            with _pipe() as (out, into):
                while count := os.splice(caller.far.fileno(), into, _PIECE):
                    while count:
                        count -= os.splice(out, caller.near.fileno(), count)
    finally:
        caller.hang_up()


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    out, into = os.pipe()
    try:
        # A user may have only so much of them.
        with suppress(OSError):
            fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIECE)
        yield out, into
    finally:
        os.close(out)
        os.close(into)


def _context(security: Security) -> ssl.SSLContext:
    assert security.certificate is not None
    assert security.key is not None
    assert security.authority is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    # Python takes certificate and key from a file only; this one is in memory.
    file = os.memfd_create("holdfast", os.MFD_CLOEXEC)
    try:
        with open(file, "wb", closefd=False) as keys:
            keys.write(security.certificate + b"\n" + security.key)
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")
    finally:
        os.close(file)
    if security.mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=security.authority.decode("ascii", "replace"))
    return context


def _name_in(certificate: Mapping[str, Any] | None) -> bytes:
    """The first alternative name, or the common name if there is none: see `Identities`."""
    certificate = certificate or {}
    for _, name in certificate.get("subjectAltName", ()):
        return str(name).encode()
    for (key, name), *_ in certificate.get("subject", ()):
        if key == "commonName":
            return str(name).encode()
    return b""
