"""Connections that are opened and not used: nobody is kept out by them, with a token or without."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from holdfast.tenants.process.http import connections
from holdfast.tenants.process.http.connections import ConnectionBounds
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import simple
from tests.tenants.process.test_http import Site, publish, put

MOST = 20


class Server:
    def __init__(self, site: Site) -> None:
        self.bounds = ConnectionBounds(MOST)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        config = uvicorn.Config(
            site.app,
            port=self.port,
            http=self.bounds,  # type: ignore[arg-type]
            ws="none",
            loop="holdfast.tenants.process.http.connections:new_loop",
            log_config=None,
            limit_concurrency=2 * MOST,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        wait_for(lambda: self._server.started)

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.socket()
        # Less than what the server is asked for below.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        made.settimeout(30)
        made.connect(("127.0.0.1", self.port))
        made.sendall(sent)
        return made

    def health(self) -> int:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            asked.request("GET", "/health")
            answer = asked.getresponse()
            answer.read()
            return answer.status
        finally:
            asked.close()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


@pytest.fixture
def server(site: Site) -> Iterator[Server]:
    made = Server(site)
    yield made
    made.stop()


def head(site: Site, method: str, path: str, *more: str) -> bytes:
    token = site.add("eve").headers["authorization"]
    lines = [f"{method} {path} HTTP/1.1", "host: here", f"authorization: {token}", *more, "", ""]
    return "\r\n".join(lines).encode()


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def has_ended(connection: socket.socket) -> bool:
    """True of a connection that the other side has closed, without waiting for that."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", ["nothing", "half a head", "half a body"])
def test_whoever_takes_all_places_keeps_nobody_out(site: Site, server: Server, sent: str) -> None:
    path = "/v1/streams/eve/o/a/updates"
    first = {
        "nothing": b"",
        "half a head": b"GET / HTTP/1.1\r\nhost:",
        "half a body": head(site, "POST", path, "content-length: 100") + b"[",
    }[sent]
    taken = [server.connect(first) for _ in range(3 * MOST)]
    try:
        assert [server.health() for _ in range(5)] == [200] * 5
        assert server.bounds.told()["open"] <= MOST
        # One whose first bytes are not read yet goes before older ones that have sent some.
        wait_for(lambda: sum(has_ended(each) for each in taken) >= 2 * MOST)
        assert sent == "half a body" or has_ended(taken[0])
    finally:
        for each in taken:
            each.close()


@pytest.mark.parametrize("sent", ["nothing", "half a head", "half a body"])
def test_what_makes_no_progress_is_closed_and_followers_are_not(
    site: Site, server: Server, monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.05)
    for phase in ("head", "body"):
        monkeypatch.setitem(connections.SECONDS, phase, 0.5)
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    token = ann.headers["authorization"]
    follower = server.connect(
        f"GET /v1/streams/ann/o/a/events HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\n\r\n"
        "".encode()
    )
    try:
        assert b"200 OK" in follower.recv(4096)
        slow = {
            "nothing": b"",
            "half a head": b"GET / HTTP/1.1\r\nhost:",
            "half a body": head(site, "PUT", "/v1/objects/o", "content-length: 100") + b"{",
        }[sent]
        with server.connect(slow) as connection:
            assert is_closed(connection)
        ann.post("/v1/streams/ann/o/a/updates", json={"channels": {"n": 1.0}})
        site.settle()
        told = b""
        while b"id: 0" not in told:
            more = follower.recv(4096)
            assert more
            told += more
    finally:
        follower.close()


def test_a_follower_that_does_not_read_is_closed(
    site: Site, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_SECONDS", 0.05)
    monkeypatch.setitem(connections.SECONDS, "answer", 0.3)
    ann = site.add("ann")
    put(ann, "o", a=simple(s="string[]"))
    for _ in range(60):
        publish(ann, "ann/o/a", {"channels": {"s": ["x" * 1_000] * 200}})
    site.settle()
    token = ann.headers["authorization"]
    asked = f"GET /v1/streams/ann/o/a/events HTTP/1.1\r\nhost: x\r\nauthorization: {token}\r\n\r\n"
    with server.connect(asked.encode()):
        wait_for(lambda: server.bounds.closed == 1)
