"""Where the console may be served, and to whom."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import httpx2
import pytest

from holdfast.console.collector import Collector
from holdfast.console.server import ConsoleServer, console_security
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology import Security, Topology
from tests.console.fake_fleet import FakeReader, fleet_topology
from tests.transport.certificates import Authority
from tests.transport.parties import no_threads_left


def nothing(stream: str) -> FakeReader:
    return FakeReader(Queue())


def collect(topology: Topology) -> Collector:
    return Collector(topology, open_=nothing)


@pytest.fixture
def secured(tmp_path: Path) -> Topology:
    authority = Authority("tests")
    identity = authority.sign()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    (tmp_path / "node.pem").write_bytes(identity.certificate)
    (tmp_path / "node.key").write_bytes(identity.key)
    (tmp_path / "token").write_text("the-token-of-the-fleet\n")
    security = Security(
        token_file="token", certificate="node.pem", key="node.key", authority="ca.pem"
    )
    return fleet_topology(tmp_path, security=security)


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Collector]:
    collector = collect(fleet_topology(tmp_path))
    yield collector
    collector.close()


def test_on_loopback_without_anything(tmp_path: Path) -> None:
    with no_threads_left():
        collector = collect(fleet_topology(tmp_path))
        with ConsoleServer(collector, console_security(collector.topology)) as server:
            assert server.url.startswith("http://127.0.0.1:")
            assert httpx2.get(server.url).status_code == 200
            assert httpx2.get(f"{server.url}api/outline").json()["name"] == "fleet"
            stranger = {"host": f"evil.example:{server.port}"}
            assert httpx2.get(server.url, headers=stranger).status_code == 400
        collector.close()


def test_every_run_has_a_token_of_its_own(plain: Collector, tmp_path: Path) -> None:
    first, second = (console_security(plain.topology).token for _ in range(2))
    assert first != second
    assert len(first or "") == 32
    (tmp_path / "mine").write_text("chosen\n")
    assert console_security(plain.topology, tmp_path / "mine").token == "chosen"


def test_beyond_loopback_without_tls_is_refused(plain: Collector) -> None:
    security = console_security(plain.topology)
    with pytest.raises(InvalidArgumentError, match="TLS"):
        ConsoleServer(plain, security, host="0.0.0.0")


def test_beyond_loopback_with_tls_and_the_token(secured: Topology) -> None:
    collector = collect(secured)
    security = console_security(secured)
    assert security.token != "the-token-of-the-fleet", "it would open more than the page"
    trusted = ssl.create_default_context(cafile=str(secured.path("ca.pem")))
    try:
        with ConsoleServer(collector, security, host="0.0.0.0", names=("console.example",)) as own:
            assert own.url.startswith("https://")
            url = f"https://127.0.0.1:{own.port}/api/outline"
            right = {"authorization": f"Bearer {security.token}"}
            with httpx2.Client(verify=trusted) as client:
                assert client.get(url).status_code == 401
                assert client.get(url, headers=right).status_code == 200
                for name, code in (("console.example", 200), ("evil.example", 400)):
                    answer = client.get(url, headers={**right, "host": name})
                    assert answer.status_code == code
            with pytest.raises(httpx2.HTTPError):
                httpx2.get(url.replace("https", "http"))
    finally:
        collector.close()


def test_a_port_that_is_taken_is_named(plain: Collector) -> None:
    security = console_security(plain.topology)
    with (
        ConsoleServer(plain, security) as server,
        pytest.raises(InvalidArgumentError, match=f"127.0.0.1:{server.port}.*another port"),
    ):
        ConsoleServer(plain, security, port=server.port)
    with pytest.raises(InvalidArgumentError, match="70000"):
        ConsoleServer(plain, security, port=70000)
