"""The front: what a caller may send before it has shown the token, and what an admitted one may."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.floods import BOUND, flood, peak_memory
from holdfast.wire.addresses import Address
from holdfast.wire.client import LogClient, fetch
from holdfast.wire.front import FIRST, MOST_STRANGERS, Front
from holdfast.wire.ledger import Ledger
from holdfast.wire.security import Security
from holdfast.wire.server import LogServer
from tests.wire.certificates import Authority
from tests.wire.parties import Recorder, no_threads_left, wait_for
from tests.wire.processes import server_process
from tests.wire.samples import readings

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
