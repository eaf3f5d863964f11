"""Addresses, and hanging up."""

from __future__ import annotations

import socket

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.transport.addresses import Address, hang_up_client, hang_up_peer, hang_up_server


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:7001", ("127.0.0.1", 7001)), ("[::1]:0", ("::1", 0)), ("edge:1", ("edge", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert Address.of(text) == address == Address.of(address)
    assert str(Address.of(address)) == text


@pytest.mark.parametrize("text", ["", "127.0.0.1", ":1", "a:", "a:b", "a:65536", "a:-1", "a:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"address: .* is none; write host:port"):
        Address.of(text)


@pytest.mark.parametrize("way", ["peer", "server", "client"])
def test_only_what_is_meant_is_hung_up(way: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as meant,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        pairs = []
        for server in (meant, other):
            client = socket.create_connection(server.getsockname(), timeout=5)
            pairs.append((client, server.accept()[0]))
        (client, served), (bystander, far) = pairs
        port = meant.getsockname()[1]
        host, number = client.getsockname()
        match way:
            case "peer":
                hang_up_peer(port, f"ipv4:{host}:{number + 1}")
                hang_up_peer(port, "unix:")
                client.sendall(b"still there")
                assert served.recv(20) == b"still there"
                hang_up_peer(port, f"ipv4:{host}:{number}")
            case "server":
                hang_up_server(port)
            case "client":
                hang_up_client(Address("localhost", port))
        assert served.recv(1) == client.recv(1) == b""
        bystander.sendall(b"x")
        assert far.recv(1) == b"x"
        for one in (client, served, bystander, far):
            one.close()
