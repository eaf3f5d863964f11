"""Breaking a topology on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.console import chaos as breaking
from holdfast.console.chaos import Breaker
from holdfast.errors import InvalidArgumentError, WireError
from holdfast.pipeline.process.supervisor import Supervisor
from holdfast.transport.client import act
from tests.console.fake_fleet import FakeFleet, fleet_topology
from tests.transport.parties import no_threads_left, wait_for

GOES_ON = "import time; print('here', flush=True); time.sleep(300)"


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[tuple[Breaker, Supervisor]]:
    """Scripts that stand in for the parties, kept going."""
    topology = fleet_topology(tmp_path)
    with Breaker(topology) as breaker:
        supervisor = Supervisor(topology, tmp_path / "fleet.toml", routes=breaker.routes)
        for keeper in supervisor.keepers.values():
            keeper.command = [sys.executable, "-c", GOES_ON]
        breaker.keepers = {"sums/1": supervisor.keepers["sums/1"]}
        supervisor.keepers = dict(breaker.keepers)
        with supervisor:
            supervisor.look()
            yield breaker, supervisor
            breaker.thaw_all()


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_freeze_thaw_and_kill(broken: tuple[Breaker, Supervisor]) -> None:
    breaker, supervisor = broken
    keeper = supervisor.keepers["sums/1"]
    process = keeper.process
    assert process is not None
    breaker.freeze("sums/1")
    wait_for(lambda: state_of(process.pid) == "T")
    assert breaker.is_frozen("sums/1")
    breaker.thaw("sums/1")
    wait_for(lambda: state_of(process.pid) != "T")
    assert not breaker.is_frozen("sums/1")
    breaker.freeze("sums/1")
    breaker.kill("sums/1")
    assert process.wait(20) == -9
    supervisor.look()
    assert not breaker.is_frozen("sums/1")
    with pytest.raises(InvalidArgumentError, match="has ended"):
        breaker.kill("sums/1")
    with pytest.raises(InvalidArgumentError, match="does not run here"):
        breaker.kill("clean/1")


def test_links_are_cut_and_healed(tmp_path: Path) -> None:
    with (
        no_threads_left(),
        FakeFleet(fleet_topology(tmp_path)) as fleet,
        Breaker(fleet.topology) as breaker,
    ):
        # Two read one, two read two, each has a peer, the sink reads two.
        assert sum(map(len, breaker.routes.values())) == 2 + 4 + 4 + 2
        route = breaker.routes["sums/1"]["clean/2"]
        assert act(route, None, "status", timeout=10)
        breaker.cut("sums/1", "clean/2")
        assert breaker.cuts_of("sums/1") == ("clean/2",)
        with pytest.raises(WireError):
            act(route, None, "status", timeout=0.3)
        assert act(breaker.routes["sums/2"]["clean/2"], None, "status", timeout=10)
        breaker.heal("sums/1", "clean/2")
        assert breaker.cuts_of("sums/1") == ()
        assert act(route, None, "status", timeout=10)
        with pytest.raises(InvalidArgumentError, match="has none to"):
            breaker.cut("readings", "sums/1")


def test_too_many_links_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(breaking, "MOST_LINKS", 5)
    with no_threads_left(), pytest.raises(InvalidArgumentError, match="--demo: the topology has"):
        Breaker(fleet_topology(tmp_path))
