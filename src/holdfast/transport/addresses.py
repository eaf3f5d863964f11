"""Flight addresses, and ending TCP connections that gRPC would wait for.

gRPC gives no way to end one call of a server, nor a write that waits for a process that is stopped
or cut off. The connection under it can be shut down by its file descriptor: gRPC takes that as if
the other side had gone, and ends everything on it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import unquote

from holdfast.errors import InvalidArgumentError

End = tuple[str, int]


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, given: tuple[str, int] | str) -> Address:
        """Of host and port, or `host:port`, or `[host]:port`."""
        if not isinstance(given, str):
            return cls(*given)
        host, colon, port = given.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
            raise InvalidArgumentError(f"address: {given!r} is none; write host:port")
        return cls(host.strip("[]"), int(port))

    def location(self, *, tls: bool) -> str:
        return f"{'grpc+tls' if tls else 'grpc'}://{self}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def hang_up_peer(port: int, peer: str) -> None:
    """End the connection to the server of this process at that port from a client, as gRPC names
    it (`ipv4:127.0.0.1:5000`)."""
    host, _, number = unquote(peer.partition(":")[2]).rpartition(":")
    client = _plain(host.strip("[]")), int(number) if number.isdigit() else -1
    _hang_up(lambda here, there: here[1] == port and there == client)


def hang_up_server(port: int) -> None:
    """End all connections to the server of this process at that port."""
    _hang_up(lambda here, there: here[1] == port)


def hang_up_client(address: Address) -> None:
    """End all connections of this process to a server; the links among them come back."""
    with suppress(OSError):
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        servers = {(_plain(str(end[0])), end[1]) for *_, end in found}
        _hang_up(lambda here, there: there in servers)


def _hang_up(is_meant: Callable[[End, End], bool]) -> None:
    for connection in _connections():
        with suppress(OSError):
            here, there = connection.getsockname(), connection.getpeername()
            if is_meant((_plain(here[0]), here[1]), (_plain(there[0]), there[1])):
                connection.shutdown(socket.SHUT_RDWR)


def _connections() -> Iterator[socket.socket]:
    """The TCP sockets of this process, each as a copy: what is looked at cannot become another."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            copied = os.dup(int(name))
            try:
                connection = socket.socket(fileno=copied)
            except OSError:
                os.close(copied)
                continue
            with connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    yield connection


def _plain(host: str) -> str:
    """One spelling for each: ::ffff:127.0.0.1 is 127.0.0.1."""
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
