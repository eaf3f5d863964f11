"""One party in a process of its own, as `holdfast node` runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa
import pytest

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError, RefusedError, WireError
from holdfast.pipeline.process.process import SUPERVISOR, PartyEndedError, read_routes, run_party
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.topology import Push, Topology
from holdfast.transport.client import LogClient
from tests.pipeline.sources.processes import save
from tests.pipeline.sources.rig import alone, final_rows, party_of, wait_for

ROWS = pa.table({"n": pa.array(range(10), pa.int64())})


def plain(folder: Path) -> Topology:
    return alone(folder, Push(schema={"n": "bigint"}))


@contextmanager
def node(
    topology: Topology, party: str, *options: str, log: str = "node.log"
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "holdfast", "node", str(save(topology)), party, *options]
    with (topology.home / log).open("ab") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(os.environ)
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def answers(topology: Topology) -> bool:
    address = topology.parties()["readings"].address
    assert address is not None
    with LogClient(address, timeout=1.0) as client:
        try:
            return bool(json.loads(client.act("status"))["ready"])
        except WireError:
            return False


def page_of(port: int) -> str:
    """The page for Prometheus; empty if there is none yet."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            return str(page.read().decode())
    except URLError:
        return ""


def test_routes_are_read() -> None:
    assert read_routes([]) == {}
    assert read_routes(["clean/1=127.0.0.1:7", "readings=edge:7001"]) == {
        "clean/1": "127.0.0.1:7",
        "readings": "edge:7001",
    }


@pytest.mark.parametrize("wrong", ["", "readings", "=127.0.0.1:7", "readings=", "readings=here"])
def test_what_is_no_route_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match="give PARTY=HOST:PORT"):
        read_routes(["clean/1=127.0.0.1:7", wrong])


def test_an_unknown_party_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no 'clean/3'.*give one of readings, keeper"):
        run_party(plain(tmp_path), "clean/3")
    assert not (tmp_path / "clean").exists()


def test_sigterm_ends_a_source_that_has_lost_nothing(tmp_path: Path) -> None:
    topology = plain(tmp_path)
    port = free_port()
    with node(topology, "readings", "--metrics", str(port)) as process:
        wait_for(lambda: answers(topology))
        address = topology.parties()["readings"].address
        assert address is not None
        with LogClient(address) as client:
            assert client.push("readings", ROWS) == [b"logged"]
        wanted = 'holdfast_party_stable_rows_total{party="readings"} 10.0'
        wait_for(lambda: wanted in page_of(port))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    said = (tmp_path / "node.log").read_text()
    assert "readings: started" in said
    assert "readings: ends" in said
    with party_of(topology):
        assert final_rows(topology, 10)["n"].to_pylist() == list(range(10))


def test_the_figures_of_a_source_tell_what_it_has_refused(tmp_path: Path) -> None:
    topology = plain(tmp_path)
    port = free_port()
    with node(topology, "readings", "--metrics", str(port)):
        wait_for(lambda: answers(topology))
        address = topology.parties()["readings"].address
        assert address is not None
        with LogClient(address) as client:
            for _ in range(3):
                with pytest.raises(RefusedError):
                    client.fetch(b"this is no ticket")
        wanted = 'holdfast_party_refused_total{party="readings",what="ticket"} 3.0'
        wait_for(lambda: wanted in page_of(port))


def test_a_sink_serves_figures(tmp_path: Path) -> None:
    topology = plain(tmp_path)
    port = free_port()
    with party_of(topology) as party, node(topology, "keeper", "--metrics", str(port)):
        wait_for(lambda: party.status()["callers"] == ["keeper"])
        party.take(ROWS)
        wanted = 'holdfast_party_sink_rows_total{party="keeper"} 10.0'
        wait_for(lambda: wanted in page_of(port))
        assert 'holdfast_party_link{party="keeper",to="readings"} 1.0' in page_of(port)


def test_a_party_that_fails_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceParty, "failure", property(lambda party: "OSError: no disk"))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(PartyEndedError, match="readings: OSError: no disk"):
        run_party(plain(tmp_path), "readings")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_party_does_not_outlive_its_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = plain(tmp_path)
    monkeypatch.setenv(SUPERVISOR, str(os.getpid()))
    with node(topology, "readings") as process:
        wait_for(lambda: answers(topology))
        assert process.poll() is None
    # Of a supervisor that was killed, the parent is another process.
    monkeypatch.setenv(SUPERVISOR, str(os.getpid() + 1))
    with node(topology, "readings") as process:
        assert process.wait(60) == 1
    assert "its supervisor is gone" in (tmp_path / "node.log").read_text()


def test_asked_to_end_while_it_starts_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = SourceParty.__init__

    def interrupted(party: SourceParty, *given: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        make(party, *given, **named)

    monkeypatch.setattr(SourceParty, "__init__", interrupted)
    run_party(plain(tmp_path), "readings")
