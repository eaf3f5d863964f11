"""The front: what a caller may send before it has shown the token, and what an admitted one may."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from harness.floods import BOUND, flood, peak_memory
from holdfast.transport.addresses import Address
from holdfast.transport.client import LogClient, fetch
from holdfast.transport.front import FIRST, MOST_HELD, MOST_STRANGERS, Front, Ledger
from holdfast.transport.security import Security
from holdfast.transport.server import LogServer
from tests.transport.certificates import Authority
from tests.transport.parties import Recorder, no_threads_left, wait_for
from tests.transport.processes import server_process
from tests.transport.samples import readings

OURS = Authority("ours")
LOOPBACK = ("127.0.0.1", 0)
TOKEN = Security("token")


def tls(*, mutual: bool) -> Security:
    identity = OURS.sign()
    return Security("token", identity.certificate, identity.key, OURS.certificate, mutual)


@pytest.mark.parametrize(
    ("security", "stranger"),
    [
        (TOKEN, None),
        (tls(mutual=False), Security("wrong", authority=OURS.certificate)),
        (tls(mutual=True), Security("wrong", authority=OURS.certificate)),
    ],
    ids=["no token", "TLS", "mutual TLS"],
)
def test_a_flood_without_the_token_takes_little_memory(
    security: Security, stranger: Security | None
) -> None:
    with server_process(security) as (process, (host, port)):
        address = f"{host}:{port}"
        assert fetch(address, security, b"rows 1000").equals(readings(1000))
        before = peak_memory(process.pid)
        assert flood(address, stranger, calls=4, size=64 << 20) == 4
        assert peak_memory(process.pid) - before < BOUND
        assert fetch(address, security, b"rows 1000").equals(readings(1000))


@pytest.fixture
def service() -> Recorder:
    return Recorder()


@pytest.fixture
def server(service: Recorder) -> Iterator[LogServer]:
    with no_threads_left(), LogServer(LOOPBACK, TOKEN, service) as made:
        yield made


def test_who_has_shown_the_token_may_send_much(server: LogServer, service: Recorder) -> None:
    rows = readings(1_000_000)
    with LogClient(server.address, TOKEN) as client:
        assert client.push("readings", rows) == [b"1000000"]
        body = os.urandom(16 << 20)
        assert client.act("echo", body) == body
    # Also with its first call.
    with LogClient(server.address, TOKEN) as client:
        assert client.act("echo", body) == body
    assert server.refused == {}


def test_strangers_do_not_keep_others_out(server: LogServer) -> None:
    strangers = [socket.create_connection(server.address) for _ in range(2 * MOST_STRANGERS)]
    try:
        assert fetch(server.address, TOKEN, b"rows 10").equals(readings(10))
        wait_for(lambda: server.refused["stranger"] >= MOST_STRANGERS)
    finally:
        for each in strangers:
            each.close()


class _Behind:
    """In place of a Flight server: takes in what comes, and answers each piece by its size."""

    def __init__(self, front: Front) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(front.location.removeprefix("grpc+unix://"))
        self._server.listen()
        front.open()

    def accept(self) -> tuple[socket.socket, str]:
        connection, name = self._server.accept()
        return connection, f"unix-abstract:{name[1:].decode()}"

    def close(self) -> None:
        self._server.close()


def taken(connection: socket.socket, size: int) -> int:
    """Bytes that come until it ends, or so many have come."""
    count = 0
    while count < size and (data := connection.recv(1 << 20)):
        count += len(data)
    return count


def test_a_caller_sends_so_much_until_it_is_admitted() -> None:
    ledger = Ledger("here")
    front = Front(Address(*LOOPBACK), TOKEN, ledger, 2 * FIRST, stall=0.2)
    behind = _Behind(front)
    caller = socket.create_connection(("127.0.0.1", front.port))
    connection, name = behind.accept()
    try:
        caller.sendall(bytes(FIRST))
        assert taken(connection, FIRST) == FIRST
        peer, certificate = front.admit(name)
        assert (peer, certificate) == (f"ipv4:127.0.0.1:{caller.getsockname()[1]}", b"")
        caller.sendall(bytes(2 * FIRST))
        assert taken(connection, 2 * FIRST) == 2 * FIRST
        front.admit(name)
        with ThreadPoolExecutor() as pool:
            count = pool.submit(taken, connection, 1000 * FIRST)
            with pytest.raises(ConnectionError):
                caller.sendall(bytes(1000 * FIRST))
            assert count.result() == 2 * FIRST
        wait_for(lambda: ledger.refused == {"flood": 1})
    finally:
        for each in (caller, connection, behind):
            each.close()
        front.stop()
        front.close()


def test_a_caller_that_makes_no_call_is_hung_up() -> None:
    ledger = Ledger("here")
    front = Front(Address(*LOOPBACK), TOKEN, ledger, patience=0.2)
    behind = _Behind(front)
    idle, admitted = (socket.create_connection(("127.0.0.1", front.port)) for _ in range(2))
    try:
        ends = [behind.accept(), behind.accept()]
        ports = {front.admit(ends[1][1])[0].rpartition(":")[2]}
        lost, kept = (
            (idle, admitted) if str(admitted.getsockname()[1]) in ports else (admitted, idle)
        )
        lost.settimeout(60)
        assert lost.recv(1) == b""
        kept.sendall(b"x")
        assert ends[1][0].recv(1) == b"x"
        assert ledger.refused == {"stranger": 1}
    finally:
        for each in (idle, admitted, *(end for end, _ in ends), behind):
            each.close()
        front.stop()
        front.close()


def test_nothing_is_left_on_disk(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while it serves: it may be killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LogServer(LOOPBACK, TOKEN, Recorder()) as server:
        assert os.listdir(tmp_path) == []
        assert fetch(server.address, TOKEN, b"rows 1").equals(readings(1))


def frame(kind: int, call: int, data: bytes, *, ends: bool = False) -> bytes:
    return len(data).to_bytes(3, "big") + bytes([kind, ends]) + call.to_bytes(4, "big") + data


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"")


class _Open:
    """A caller of a front, and the other end of its connection, which is read all the time."""

    def __init__(self, front: Front, behind: _Behind) -> None:
        self._front = front
        self.caller = socket.create_connection(("127.0.0.1", front.port))
        self.caller.settimeout(60)
        self._end, self._name = behind.accept()
        self.count = 0
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, *frames: bytes) -> bool:
        """Whether the connection still stands when it is taken in; another call begins then."""
        wanted = self.count + sum(map(len, frames))
        try:
            for each in frames:
                self.caller.sendall(each)
        except OSError:
            return False
        wait_for(lambda: self.count >= wanted or not self._thread.is_alive())
        self._front.admit(self._name)
        return self._thread.is_alive()

    def close(self) -> None:
        self.caller.close()
        self._thread.join()
        self._end.close()

    def _read(self) -> None:
        with suppress(OSError):
            while data := self._end.recv(1 << 20):
                self.count += len(data)


@contextmanager
def opened(count: int, allowance: int) -> Iterator[tuple[Ledger, list[_Open]]]:
    ledger = Ledger("here")
    front = Front(Address(*LOOPBACK), TOKEN, ledger, allowance, patience=600.0)
    behind = _Behind(front)
    callers = [_Open(front, behind) for _ in range(count)]
    try:
        yield ledger, callers
    finally:
        for each in (*callers, behind):
            each.close()
        front.stop()
        front.close()


def test_a_call_without_end_is_bounded_whatever_others_its_caller_makes() -> None:
    piece = frame(0, 1, bytes(16 << 10))
    with opened(2, 1 << 20) as (ledger, (liar, honest)):
        assert liar.send(PREFACE, frame(1, 1, b"headers"))
        assert honest.send(PREFACE)
        for number in range(1, 200, 2):
            # Cut anywhere.
            body = frame(0, number, bytes(16 << 10)) + frame(0, number, b"end", ends=True)
            sent = frame(1, number, b"headers") + body
            assert honest.send(sent[:11], sent[11:5000], sent[5000:])
        count = 0
        while liar.send(piece) and count < 100:
            count += 1
        assert count * (16 << 10) < 1 << 20
        assert honest.send(frame(1, 401, b"headers", ends=True))
        assert ledger.refused == {"flood": 1}


def test_what_callers_hold_together_is_bounded() -> None:
    each = 4 << 20
    piece = frame(0, 1, bytes(1 << 20))
    count = MOST_HELD // each + 4
    with opened(count, each + (1 << 20)) as (ledger, callers):
        for caller in callers:
            caller.send(PREFACE, frame(1, 1, b"headers"))
            # Each piece after a call that has begun.
            for _ in range(4):
                if not caller.send(piece):
                    break
        assert ledger.refused["flood"] >= 4


def test_the_front_goes_on_when_no_thread_could_be_started(
    server: LogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Thread.start

    def fail(thread: Thread) -> None:
        if thread.name.startswith("holdfast front"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail)
        with socket.create_connection(server.address) as refused:
            refused.settimeout(60)
            assert refused.recv(1) == b""
    assert fetch(server.address, TOKEN, b"rows 1").equals(readings(1))


def test_the_folder_of_temporary_files_may_have_a_long_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with LogServer(LOOPBACK, TOKEN, Recorder()) as server:
        assert fetch(server.address, TOKEN, b"rows 1").equals(readings(1))


def test_one_host_does_not_take_all_connections() -> None:
    """As many as the process may open files for."""
    most, hard = 64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (8 * most, hard))
    try:
        ledger = Ledger("here")
        front = Front(Address(*LOOPBACK), TOKEN, ledger)
        behind = _Behind(front)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    ends = []
    callers = []
    try:
        for _ in range(2 * most):
            callers.append(socket.create_connection(("127.0.0.1", front.port)))
            end, name = behind.accept()
            front.admit(name)
            ends.append(end)
        assert ledger.refused["connection"] >= most
    finally:
        for each in (*callers, *ends, behind):
            each.close()
        front.stop()
        front.close()
