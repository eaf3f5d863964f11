"""Addresses `host:port`, and which of them stay on this machine."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from holdfast.config.problems import show
from holdfast.config.settings import Refused, is_not

_ADDRESS: Final = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))):"
    r"(?P<port>[0-9]{1,6})",
    re.ASCII,
)
_LOOKS_LIKE_IP: Final = re.compile(r"[0-9.]+", re.ASCII)


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    """Without brackets."""
    port: int


def parse_address(text: str) -> Address:
    """The parts of an address that has been checked."""
    host, _, port = text.rpartition(":")
    return Address(host.strip("[]"), int(port))


def read_address(value: Any) -> str:
    """An address that others can connect to."""
    if not isinstance(value, str):
        raise is_not(value, "an address")
    found = _ADDRESS.fullmatch(value)
    if found is None:
        raise Refused.because(f"{show(value)} is no address", "write host:port, or [IPv6]:port")
    if not 0 < int(found["port"]) < 65536:
        raise Refused.because(f"{found['port']} is no port", "give one from 1 to 65535")
    host = found["six"] or found["host"]
    if found["six"] or _LOOKS_LIKE_IP.fullmatch(host):
        _check_ip(value, host)
    return value


def _check_ip(value: str, host: str) -> None:
    try:
        ip = ip_address(host)
    except ValueError:
        raise Refused.because(f"{show(value)} has no IP address", "write four numbers") from None
    if ip.is_unspecified:
        raise Refused.because(
            f"{show(value)} stands for every address of a machine, and others connect to it",
            "give the one that they can reach",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
