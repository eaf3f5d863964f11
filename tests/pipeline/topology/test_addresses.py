from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.addresses import Address, is_loopback, parse_address, read_address
from holdfast.config.settings import Refused


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("127.0.0.1:7001", "127.0.0.1", 7001, True),
        ("127.9.9.9:1", "127.9.9.9", 1, True),
        ("localhost:65535", "localhost", 65535, True),
        ("LocalHost:80", "LocalHost", 80, True),
        ("[::1]:7001", "::1", 7001, True),
        ("10.0.0.5:7001", "10.0.0.5", 7001, False),
        ("edge-1.example.org:7001", "edge-1.example.org", 7001, False),
        ("localhost.example.org:7001", "localhost.example.org", 7001, False),
        ("[fe80::1]:7001", "fe80::1", 7001, False),
        ("127.example:7001", "127.example", 7001, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    assert read_address(text) == text
    assert parse_address(text) == Address(host, port)
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("127.0.0.1", "write host:port"),
        (":7001", "write host:port"),
        ("host:", "write host:port"),
        ("host:port", "write host:port"),
        ("a b:7001", "write host:port"),
        ("::1:7001", "write host:port"),
        ("host:70 01", "write host:port"),
        ("http://host:7001", "write host:port"),
        ("host:\u0661", "write host:port"),
        ("host:7001\n", "write host:port"),
        ("host:0", "from 1 to 65535"),
        ("host:65536", "from 1 to 65535"),
        ("0.0.0.0:7001", "every address"),
        ("[::]:7001", "every address"),
        ("300.0.0.1:7001", "no IP address"),
        ("127.1:7001", "no IP address"),
        ("[1:2]:7001", "no IP address"),
        (7001, "7001 is not an address"),
        (None, "None is not an address"),
    ],
)
def test_what_is_no_address(text: Any, says: str) -> None:
    with pytest.raises(Refused) as caught:
        read_address(text)
    (fault,) = caught.value.faults
    assert says in f"{fault.message}; {fault.remedy}"
