"""The fault proxy of the live tests, against an echo."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast.transport.proxy import Proxy
from tests.transport.parties import wait_for


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """In front of a server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))
    sockets: list[socket.socket] = []

    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    connection.sendall(data)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            sockets.append(connection)
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with Proxy(listener.getsockname()) as made:
        yield made
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(proxy.address, timeout=10)


def says_nothing(client: socket.socket) -> bool:
    client.settimeout(0.2)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(10)
    return False


def receive(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := client.recv(65536)):
        data += piece
    return data


def test_bytes_pass_and_are_counted(proxy: Proxy) -> None:
    with connect(proxy) as client:
        data = bytes(range(256)) * 4000
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert receive(client, len(data)) == data
        sender.join()
        assert proxy.bytes == {"to": len(data), "from": len(data)}
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    wait_for(lambda: proxy.connections == 0)


@pytest.mark.parametrize("direction", [None, "to", "from"])
def test_a_cut_holds_bytes_back(proxy: Proxy, direction) -> None:
    with connect(proxy) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.cut(direction)
        client.sendall(b"b")
        assert says_nothing(client)
        if direction == "from":
            wait_for(lambda: proxy.bytes["to"] == 2)
        else:
            assert proxy.bytes["to"] == 1
        proxy.heal()
        assert client.recv(1) == b"b"


def test_a_reset_closes_and_refuses_until_healed(proxy: Proxy) -> None:
    with connect(proxy) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.heal()
    with connect(proxy) as client:
        client.sendall(b"b")
        assert client.recv(1) == b"b"


def test_a_delay_is_kept_for_every_piece(proxy: Proxy) -> None:
    proxy.delay(0.1)
    with connect(proxy) as client:
        begin = time.monotonic()
        for _ in range(5):
            client.sendall(b"x")
        assert receive(client, 5) == b"xxxxx"
        assert time.monotonic() - begin >= 0.2


def test_closing_leaves_no_thread(proxy: Proxy) -> None:
    with connect(proxy):
        proxy.cut()
        proxy.close()
        proxy.close()
    assert "fault proxy" not in [thread.name for thread in threading.enumerate()]
