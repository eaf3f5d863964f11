"""Front of a Flight server: bounds the bytes of callers without the token.

gRPC reads a call as a whole before anybody can refuse it, and Flight gives no way to bound that. So
the front listens where others call and passes their bytes on to the Flight server behind it, which
listens on a Unix socket that nobody else can open. Of a connection it takes `FIRST` bytes, and more
only when a call of it was admitted. It ends TLS: what comes from beyond this machine is encrypted
up to here. Without TLS and allowance bytes are passed on in the kernel. With an allowance the
front follows the frames of HTTP/2: a call may go on for ever while others on its connection begin,
and gRPC keeps all of it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import resource
import secrets
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

import pyarrow.flight as fl

from holdfast.errors import HoldfastError
from holdfast.transport.addresses import Address
from holdfast.transport.security import Security

QUIET_S: Final = 10.0
"""Between two lines of the log on one kind of thing: a flood of calls is none of lines."""
MOST_REASONS: Final = 64
"""That are told apart; callers may make up others."""

logger = logging.getLogger(__name__)


class Ledger:
    """For many threads."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The address of the server, for what is logged."""
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._logged: dict[tuple[str, str], float] = {}
        """When a kind of thing was logged last."""
        self._unlogged: Counter[tuple[str, str]] = Counter()
        """How often it was not, since then."""

    @property
    def counts(self) -> Counter[str]:
        with self._lock:
            return Counter(self._counts)

    @property
    def refused(self) -> Counter[str]:
        with self._lock:
            return Counter(self._refused)

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self._counts[what] += by

    def refuse(self, what: str, why: object) -> None:
        """Count and log it."""
        with self._lock:
            self._refused[what] += 1
        if (more := self._turn_to_log(what, str(why))) is not None:
            logger.warning("%s: refused %s: %s%s", self.where, what, why, more)

    def _turn_to_log(self, kind: str, why: str) -> str | None:
        """How many were not logged, for people; None if this one is not to be either."""
        now = time.monotonic()
        with self._lock:
            is_known = (kind, why) in self._logged
            what = (kind, why if is_known or len(self._logged) < MOST_REASONS else "")
            if now < self._logged.get(what, float("-inf")) + QUIET_S:
                self._unlogged[what] += 1
                return None
            self._logged[what] = now
            more = self._unlogged.pop(what, 0)
        return f" (and {more} more since the last line)" if more else ""

    @contextmanager
    def answering(self, what: str) -> Iterator[None]:
        """Errors as a client may see them. Only Flight's own cross without a traceback in them."""
        try:
            yield
        except HoldfastError as error:
            self.refuse(what, error)
            raise fl.FlightServerError(str(error)[:300]) from None
        except Exception:
            self.count("failed")
            if (more := self._turn_to_log(f"{what} failed", "")) is not None:
                logger.exception("%s: %s failed%s", self.where, what, more)
            raise fl.FlightInternalError("failed inside; its log says why") from None

    @contextmanager
    def excusing(self) -> Iterator[None]:
        """A service that fails does not take the link with it."""
        try:
            yield
        except Exception:
            self.count("failed")
            logger.exception("%s: the service failed", self.where)


FIRST: Final = 256 << 10
"""Bytes that a caller may send until a call of it is admitted."""
KNOCK: Final = "knock"
"""The action by which a caller shows the token before it sends more."""
MOST_STRANGERS: Final = 32
"""Connections of which no call was admitted yet."""
MOST_CALLERS: Final = 1024
"""Connections, if the process may have so many open files: each takes `_FILES`."""
MOST_HELD: Final = 64 << 20
"""Bytes that all callers together have sent of calls that have not begun."""
PATIENCE_S: Final = 10.0
"""Until a call must have been admitted."""
STALL_S: Final = 5.0
"""For Flight to take in what a caller has sent, when it has used up its bytes."""
_PIECE: Final = 1 << 20
_STRANGERS_PIECE: Final = 64 << 10
_TLS_PIECE: Final = 256 << 10
_BACKLOG: Final = 128
_FILES: Final = 8
"""Open files for each connection, and some for all else."""
_PREFACE_SIZE: Final = 24
_HEAD_SIZE: Final = 9
_DATA, _HEADERS, _RESET, _CONTINUATION = 0, 1, 3, 9
"""Kinds of frames of HTTP/2 (RFC 9113)."""
_END_STREAM: Final = 1
_CALL_BYTES: Final = 4 << 10
"""That an open call takes besides what it sends."""


class _OpenCalls:
    """The bytes of calls that a caller has not sent as a whole, by the frames that it sends."""

    def __init__(self) -> None:
        self.size = 0
        self._skipped = _PREFACE_SIZE
        """Bytes until the next frame."""
        self._head = b""
        self._sizes: dict[int, int] = {}

    def take(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._skipped:
                step = min(self._skipped, len(data) - at)
                self._skipped -= step
            else:
                step = min(_HEAD_SIZE - len(self._head), len(data) - at)
                self._head += data[at : at + step]
                if len(self._head) == _HEAD_SIZE:
                    self._begin(self._head)
                    self._head = b""
            at += step

    def _begin(self, head: bytes) -> None:
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        call = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        self._skipped = length
        is_last = kind in (_DATA, _HEADERS) and flags & _END_STREAM
        if is_last or kind == _RESET:
            self.size -= self._sizes.pop(call, 0)
        elif kind in (_DATA, _HEADERS) or (kind == _CONTINUATION and call in self._sizes):
            more = length + (0 if call in self._sizes else _CALL_BYTES)
            self._sizes[call] = self._sizes.get(call, 0) + more
            self.size += more


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
        self._spent = 0
        """Bytes that it has sent since a call of it was admitted last."""
        self.calls = _OpenCalls()
        self.is_over = False

    @property
    def held(self) -> int:
        """Bytes of it that gRPC may hold, of calls that have not begun."""
        return self._spent + self.calls.size

    def admit(self, allowance: int | None) -> None:
        """Something of what it has sent was taken in: it may send so much more."""
        with self._change:
            self.is_admitted = True
            self._left = allowance
            self._spent = 0
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
            self._spent += count
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
        """`allowance`: bytes that an admitted caller may send until a call of it begins, and of
        calls that it does not end; None for any number. Raises OSError for an address or
        certificates that are no good."""
        self._patience = patience
        self._stall = stall
        self._ledger = ledger
        self._allowance = allowance
        self._tls = _context(security) if security.tls else None
        self._folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
        self._within: int | None = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        self._behind: int | None = None
        self._lock = Lock()
        self._callers: dict[str, _Caller] = {}
        """By the name that gRPC gives to a connection of the front."""
        self._threads: set[Thread] = set()
        self._most = min(MOST_CALLERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _FILES)
        self._is_closed = False
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            self._server = socket.create_server(
                (address.host, address.port), family=family, backlog=_BACKLOG
            )
        except BaseException:
            os.close(self._within)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.port: int = self._server.getsockname()[1]
        self._accepting = Thread(target=self._accept, name="holdfast front", daemon=True)

    @property
    def location(self) -> str:
        """Where the Flight server is to listen. By a descriptor: paths of Unix sockets are short,
        and those of temporary folders may be long."""
        return f"grpc+unix:///proc/self/fd/{self._within}/flight"

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
        for each in (self._behind, self._within):
            if each is not None:
                os.close(each)
        self._behind = self._within = None
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
                    self._end_strangers()
                    time.sleep(0.05)
                continue
            self._end_strangers()
            # RuntimeError: no more threads can be started. That may pass too.
            with suppress(OSError, RuntimeError):
                self._take(near, str(end[0]), int(end[1]))

    def _take(self, near: socket.socket, host: str, port: int) -> None:
        try:
            far = socket.socket(socket.AF_UNIX)
        except BaseException:
            near.close()
            raise
        try:
            near.settimeout(None)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if len(self._callers) >= self._most:
                self._end_one()
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
            try:
                thread.start()
            except BaseException:
                self._forget(name, thread)
                raise
        except BaseException:
            near.close()
            far.close()
            raise

    def _serve(self, name: str, caller: _Caller) -> None:
        try:
            # Whichever side hangs up, the other one hears of it.
            with suppress(OSError, RuntimeError):
                caller.far.connect(f"/proc/self/fd/{self._behind}")
                self._carry(caller)
        finally:
            caller.hang_up()
            # Before the name is free for another one.
            self._forget(name, current_thread())
            caller.near.close()
            caller.far.close()

    def _forget(self, name: str, thread: Thread) -> None:
        with self._lock:
            del self._callers[name]
            self._threads.discard(thread)

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
            if self._inwards(caller, session) and not caller.is_over:
                self._refuse_flood(caller)
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

    def _end_one(self) -> None:
        """End any connection of the host that has most."""
        with self._lock:
            callers = [each for each in self._callers.values() if not each.is_over]
        if len(callers) < self._most:
            return
        [(host, _)] = Counter(each.host for each in callers).most_common(1)
        ended = secrets.choice([each for each in callers if each.host == host])
        self._ledger.refuse("connection", f"{ended.peer}: its host has too many")
        ended.hang_up()

    def _refuse_flood(self, caller: _Caller) -> None:
        self._ledger.refuse(
            "flood", f"{caller.peer} has sent more than a caller may before its call begins"
        )
        caller.hang_up()

    def _is_too_much(self, caller: _Caller) -> bool:
        """Whether it keeps too much open. If all together do, the one of most that its host has
        is hung up."""
        if self._allowance is None or caller.held <= FIRST:
            return False
        if caller.calls.size > self._allowance:
            return True
        with self._lock:
            callers = [each for each in self._callers.values() if not each.is_over]
        held = {each: each.held for each in callers}
        if sum(held.values()) > MOST_HELD:
            hosts: Counter[str] = Counter()
            for each, size in held.items():
                hosts[each.host] += size
            [(host, _)] = hosts.most_common(1)
            largest = max((each for each in callers if each.host == host), key=held.__getitem__)
            if largest is caller:
                return True
            self._refuse_flood(largest)
        return False

    def _inwards(self, caller: _Caller, session: _Session | None) -> bool:
        """True if it has used up its bytes; returns when the caller has hung up."""
        if session is None and self._allowance is None:
            return _splice_inwards(caller)
        while room := caller.room(_TLS_PIECE):
            if not (data := caller.near.recv(room)):
                return False
            caller.spend(len(data))
            plain = data if session is None else session.read(data)
            if self._allowance is not None:
                caller.calls.take(plain)
                if self._is_too_much(caller):
                    return True
            caller.far.sendall(plain)
        return True


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


def _splice_inwards(caller: _Caller) -> bool:
    """See `Front._inwards`."""
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
    # HTTP/2 forbids it, and it costs us more than the caller.
    context.options |= ssl.OP_NO_RENEGOTIATION
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
