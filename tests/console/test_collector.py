"""All parties are asked in the background; whoever is slow or gone delays nobody."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import msgspec
import pytest

from harness.ports import free_port
from holdfast.console.collector import Collector, Kept, written
from holdfast.console.panels import Panel, Table
from holdfast.console.pollers import (
    ABSENT,
    ENDED,
    EVERY,
    FROZEN,
    MOST_ASKED,
    READING,
    STARTING,
    UNKNOWN,
    pause_for,
)
from holdfast.errors import HoldfastError
from holdfast.transport.proxy import Proxy
from tests.console.fake_fleet import FakeFleet, fleet_topology
from tests.transport.parties import no_threads_left, wait_for

SOON = 2.0
"""Seconds within which the page is to show what has failed."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FakeFleet]:
    with FakeFleet(fleet_topology(tmp_path)) as fleet:
        yield fleet


def states(collector: Collector) -> dict[str, str]:
    return {name: found.state for name, found in collector.conditions().items()}


def watch(fleet: FakeFleet, **settings: object) -> Collector:
    return Collector(fleet.topology, open_=fleet.streams.open, **settings)  # type: ignore[arg-type]


def all_well(collector: Collector) -> bool:
    found = states(collector)
    return len(found) == 6 and set(found.values()) == {"STABLE", READING}


def is_seen_soon(fleet: FakeFleet, collector: Collector, party: str) -> None:
    """One of several changes, for other tests may starve us for a while."""
    for state in ("UP_FAILURE", "STABILIZATION", "UP_FAILURE", "STABILIZATION"):
        fleet.say(party, state=state)
        if wait_for(lambda state=state: states(collector)[party] == state, 30) < SOON:
            return
    raise AssertionError(f"no change of {party} was seen within {SOON} s")


def test_everybody_is_asked_and_a_sink_is_seen_by_those_it_reads(fleet: FakeFleet) -> None:
    with no_threads_left(), watch(fleet) as collector:
        wait_for(lambda: all_well(collector))
        both = {"sums/1": True, "sums/2": True}
        wait_for(lambda: collector.conditions()["archive"].facts["links"] == both)
        fleet.say("sums/1", callers=[])
        fleet.say("sums/2", callers=[])
        wait_for(lambda: states(collector)["archive"] == UNKNOWN)


def test_a_party_that_is_gone_is_seen_soon_and_comes_back(fleet: FakeFleet) -> None:
    with watch(fleet) as collector:
        wait_for(lambda: all_well(collector))
        fleet.stop("clean/2")
        wait_for(lambda: states(collector)["clean/2"] == ABSENT)
        assert "see whether it runs" in collector.conditions()["clean/2"].facts["why"]
        is_seen_soon(fleet, collector, "sums/1")
        fleet.start("clean/2")
        wait_for(lambda: states(collector)["clean/2"] == "STABLE")


def test_one_that_does_not_answer_delays_nobody(fleet: FakeFleet) -> None:
    address = fleet.topology.parties()["clean/1"].address
    assert address is not None
    host, _, port = address.rpartition(":")
    with Proxy((host, int(port))) as proxy:
        route = {"clean/1": f"127.0.0.1:{proxy.port}"}
        with watch(fleet, routes=route) as collector:
            wait_for(lambda: all_well(collector))
            proxy.cut()
            wait_for(lambda: states(collector)["clean/1"] == ABSENT)
            is_seen_soon(fleet, collector, "clean/2")
            proxy.heal()
            wait_for(lambda: states(collector)["clean/1"] == "STABLE")


def test_one_that_says_nonsense_is_shown_as_such(fleet: FakeFleet) -> None:
    with watch(fleet) as collector:
        fleet.statuses["clean/1"] = b'{"state": "<script>"}'
        wait_for(lambda: states(collector).get("clean/1") == ABSENT)
        assert "in the state" in collector.conditions()["clean/1"].facts["why"]


def test_what_has_changed_can_be_gone_back_to(fleet: FakeFleet) -> None:
    with watch(fleet) as collector:
        wait_for(lambda: all_well(collector))
        before, version = time.time(), collector.version
        fleet.say("sums/1", state="STABILIZATION", stable_rows=99)
        wait_for(lambda: states(collector)["sums/1"] == "STABILIZATION")
        assert collector.version > version
        assert collector.conditions(before)["sums/1"].state == "STABLE"
        wait_for(
            lambda: (
                written(collector.conditions(time.time())["sums/1"])["figures"].get("stable_rows")
                == 99
            )
        )


def test_processes_that_we_keep_tell_more_than_silence(fleet: FakeFleet) -> None:
    kept = {"clean/1": Kept(True, 2), "clean/2": Kept(False, 3, code=9), "archive": Kept(True, 1)}
    fleet.stop("clean/1")
    with watch(fleet, kept=lambda: kept) as collector:
        wait_for(lambda: len(states(collector)) == 6)
        assert states(collector)["clean/1"] == STARTING
        assert states(collector)["clean/2"] == ENDED
        assert collector.conditions()["clean/2"].facts["why"] == "ended with 9"
        fleet.start("clean/1")
        wait_for(lambda: states(collector)["clean/1"] == "STABLE")
        assert collector.conditions()["clean/1"].facts["starts"] == 2
        fleet.stop("clean/1")
        wait_for(lambda: states(collector)["clean/1"] == ABSENT)
        kept["clean/1"] = Kept(True, 2, is_frozen=True, cuts=("readings",))
        wait_for(lambda: states(collector)["clean/1"] == FROZEN)
        assert collector.conditions()["clean/1"].facts["cuts"] == ("readings",)


def test_our_own_votes_stand_for_those_of_a_sink(tmp_path: Path) -> None:
    """Nobody can ask a sink."""
    topology = fleet_topology(tmp_path)
    sums = replace(topology.stages["sums"], replicas=[f"127.0.0.1:{free_port()}" for _ in range(4)])
    archive = replace(topology.sinks["archive"], policy="vote")
    topology = replace(
        topology, stages={**topology.stages, "sums": sums}, sinks={"archive": archive}
    )
    with FakeFleet(topology) as fleet, watch(fleet) as collector:
        votes = {"replicas": ["sums/1", "sums/2"], "buckets": [[1_000_000, "ad", 0]]}
        fleet.streams.found = {"accused": {"sums/2": 1}, "votes": {"sums": votes}}
        mine = "this console, of sums"
        wait_for(lambda: mine in states(collector))
        found = written(collector.conditions()[mine])
        assert found["votes"]["accused"] == {"sums/2": 1}
        assert found["ballots"]["sums"]["buckets"] == [(1_000_000, "ad", 0)]
        wait_for(lambda: collector.conditions(time.time()).get(mine) is not None)


def shown(collector: Collector, at: float | None = None) -> dict[str, Any]:
    """The one table of the first panel."""
    tables = json.loads(msgspec.json.encode(collector.panels(at)[0]["tables"]))
    [table] = tables
    return dict(table)


def test_a_panel_appears_when_it_is_registered(fleet: FakeFleet) -> None:
    answers: list[Table | Exception] = [Table(("tenant", "rows"), [["a", 7]])]
    slow = Event()

    def ask() -> Table:
        answer = answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    with watch(fleet) as collector:
        assert collector.panels() == []
        collector.register(Panel("tenants", "Tenants", ask))
        collector.register(Panel("slow", "Slow", lambda: Table((), ()) if slow.wait(60) else ask()))
        wait_for(lambda: shown(collector)["rows"] == [["a", 7]])
        then = time.time()
        answers[0] = HoldfastError("the register is away")
        wait_for(lambda: shown(collector)["note"] == "the register is away")
        # It can be gone back to; before it was registered, nothing was known of it.
        assert shown(collector, then)["rows"] == [["a", 7]]
        assert shown(collector, then - 60)["note"] == "nothing is known of then"
        wait_for(lambda: all_well(collector))
        slow.set()


def test_many_are_asked_less_often() -> None:
    assert pause_for(6) == EVERY
    assert 300 / pause_for(300) == pytest.approx(MOST_ASKED)
