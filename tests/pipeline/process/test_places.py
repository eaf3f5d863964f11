"""What a topology means for the protocol of a replica."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import WireError
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.states import AllOf, AnyOf
from holdfast.pipeline.machine.throttle import Rest
from holdfast.pipeline.machine.vote_subscription import Comparison
from holdfast.pipeline.process.replica_config import (
    WAITING,
    comparison_of,
    identities_of,
    inputs_of,
    place_of,
    reader_for,
    retention_of,
    rules_of,
    security_of,
    settings_of,
)
from holdfast.pipeline.topology import (
    POLICIES,
    Console,
    Join,
    Push,
    Replica,
    Security,
    Sink,
    Stage,
    Stream,
    Topology,
    Where,
    Window,
)

SCHEMA = {"sensor": "string", "value": "double"}
SECOND = 1_000_000
WINDOW = Window(keys=["sensor"], size="10s", slide="1s", aggregates=["count() AS n"])


def topology(
    stage: Mapping[str, Any] | None = None, stream: Mapping[str, Any] | None = None, **rest: Any
) -> Topology:
    """readings, others -> clean (2 replicas) -> means -> archive, and a sink of clean."""
    return Topology(
        **{
            "name": "fleet",
            "bucket": "500ms",
            "home": Path(),
            "streams": {
                "readings": Stream(
                    source=Push(schema=SCHEMA), address="127.0.0.1:7001", **(stream or {})
                ),
                "others": Stream(source=Push(schema=SCHEMA), address="127.0.0.1:7002"),
            },
            "stages": {
                "clean": Stage(
                    inputs=["readings", "others"],
                    replicas=["127.0.0.1:7101", "127.0.0.1:7102"],
                    **({"max_delay": "4s"} | dict(stage or {})),
                ),
                "means": Stage(
                    inputs=["clean"], replicas=["127.0.0.1:7201"], max_delay="4s", steps=[WINDOW]
                ),
            },
            "sinks": {
                "archive": Sink(stream="means", sink=Console()),
                "table": Sink(stream="clean", sink=Console()),
            },
        }
        | rest
    )


def test_where_a_replica_stands() -> None:
    place = place_of(topology(), "clean/2")
    assert place.name == "clean/2"
    assert place.peers == ("clean/1",)
    assert {name: tuple(each) for name, each in place.inputs.items()} == {
        "readings": ("readings",),
        "others": ("others",),
    }
    assert place.outputs == {"clean": AnyOf(("readings", "others"))}
    assert set(place.readers["clean"]) == {"means/1", "table"}
    assert (place.span, place.start) == (0, 0)


def test_a_stage_behind_a_stage_reads_all_its_replicas() -> None:
    place = place_of(topology(), "means/1")
    assert tuple(place.inputs["clean"]) == ("clean/1", "clean/2")
    assert place.peers == ()
    assert place.readers == {"means": ("archive",)}
    assert place.span == 10 * SECOND


def test_a_join_needs_all_its_inputs() -> None:
    given = topology(
        {"steps": [Join(keys=["sensor"], within="3s")]},
        stages={
            "clean": Stage(
                inputs=["readings", "others"],
                replicas=["127.0.0.1:7101"],
                max_delay="4s",
                steps=[Join(keys=["sensor"], within="3s")],
            )
        },
        sinks={"table": Sink(stream="clean", sink=Console())},
    )
    place = place_of(given, "clean/1")
    assert place.outputs == {"clean": AllOf(("readings", "others"))}
    assert place.span == 3 * SECOND


def test_all_is_kept_unless_the_topology_says_otherwise() -> None:
    assert retention_of(topology(), "clean") == Retention(least=600 * SECOND)
    assert retention_of(topology(), "readings").span == math.inf


def test_with_retain_readers_do_without_what_is_older() -> None:
    given = topology({"retain": "1m"}, {"retain": "1h"})
    assert retention_of(given, "clean") == Retention(
        60 * SECOND, convergent=True, least=60 * SECOND
    )
    assert retention_of(given, "readings") == Retention(
        3600 * SECOND, convergent=True, least=600 * SECOND
    )


def test_how_a_stage_is_run() -> None:
    given = topology({"heartbeat": "250ms", "missed": 5})
    settings = settings_of(given, "clean")
    assert settings.size == SECOND // 2
    assert (settings.heartbeat, settings.missed) == (SECOND // 4, 5)
    assert settings.delays.max_delay == 4 * SECOND
    assert 0 < settings.delays.headroom < SECOND
    assert settings.delays.patience == SECOND // 4
    assert settings.lag * settings.size >= 3 * SECOND
    assert settings.beside
    assert (settings.retain, settings.may_skip) == (math.inf, False)


def test_order_never_shows_anything_tentative() -> None:
    given = topology({"policy": "order", "max_delay": math.inf})
    delays = settings_of(given, "clean").delays
    assert (delays.max_delay, delays.headroom) == (math.inf, 0)


@pytest.mark.parametrize("policy", ["first", "latest"])
@pytest.mark.parametrize("more", [{}, {"retain": "1h"}])
def test_where_replicas_are_compared_so_much_waits_for_the_query(
    policy: str, more: dict[str, str]
) -> None:
    given = topology({"policy": policy, "max_delay": "forever"} | more)
    settings = settings_of(given, "clean")
    assert (settings.retain, settings.may_skip) == (WAITING * settings.size, False)


def test_with_retain_the_oldest_corrections_are_given_up() -> None:
    given = topology({"retain": "1m"})
    settings = settings_of(given, "clean")
    assert (settings.retain, settings.may_skip) == (60 * SECOND, True)


@pytest.mark.parametrize("retain", ["100ms", "3s", "1m"])
@pytest.mark.parametrize("delay", [{"policy": "order"}, {}, {"max_delay": "4s"}])
@pytest.mark.parametrize("steps", [[], [WINDOW]])
def test_whatever_the_topology_allows_a_node_takes(
    retain: str, delay: Mapping[str, Any], steps: list[Any]
) -> None:
    """`retain` is of the stage's log; what a stage itself gives up is never what it will miss."""
    stage = Stage(
        inputs=["readings"], replicas=["127.0.0.1:7101"], retain=retain, steps=steps, **delay
    )
    given = topology(stages={"clean": stage}, sinks={"table": Sink(stream="clean", sink=Console())})
    settings = settings_of(given, "clean")
    Node(place_of(given, "clean/1"), settings, 0)
    if "max_delay" in delay:
        assert settings.may_skip
        assert settings.retain > settings.delays.max_delay + stage.span
    else:
        assert not settings.may_skip


def voted(policy: str, **gate: Any) -> Topology:
    """clean, with four replicas -> means, which compares them."""
    addresses = [f"127.0.0.1:{port}" for port in range(7101, 7105)]
    return topology(
        stages={
            "clean": Stage(inputs=["readings"], replicas=addresses),
            "means": Stage(inputs=["clean"], replicas=["127.0.0.1:7201"], policy=policy, **gate),
        }
    )


@pytest.mark.parametrize("policy", [each for each in POLICIES if each not in ("share", "merge")])
def test_how_replicas_are_compared(policy: str) -> None:
    given = voted(policy)
    comparison = comparison_of(given.stages["means"])
    assert settings_of(given, "means").delays.max_delay == math.inf
    assert comparison_of(given.stages["clean"]) is None
    if policy in ("switch", "order"):
        assert comparison is None
    else:
        assert comparison == Comparison(policy, 1, every=10, barrier=30 * SECOND, proofs=3)


def test_the_settings_of_a_gate_reach_it() -> None:
    given = voted("sample", every=4, barrier="5s", proofs=7)
    assert comparison_of(given.stages["means"]) == Comparison(
        "sample", 1, every=4, barrier=5 * SECOND, proofs=7
    )
    given = voted("vote", room=8, rest="rate")
    assert comparison_of(given.stages["means"]) == Comparison(
        "vote", 1, barrier=30 * SECOND, room=8, rest=Rest.RATE
    )


@pytest.mark.parametrize(("policy", "peers"), [("vote", 0), ("sample", 0), ("first", 3)])
def test_replicas_that_may_lie_get_nothing_from_each_other(policy: str, peers: int) -> None:
    assert len(place_of(voted(policy), "clean/1").peers) == peers


def test_the_certificate_of_a_host_is_good_for_its_parties_only() -> None:
    given = topology(
        stages={
            "clean": Stage(
                inputs=["readings"],
                replicas=[
                    Replica(address="10.0.0.1:7101", host="edge-1"),
                    Replica(address="10.0.0.2:7101", host="edge-2"),
                ],
            )
        },
        sinks={"table": Sink(stream="clean", sink=Console(), host="edge-2")},
        security=Security(token_file="t", certificate="c", key="k", authority="a", mutual=True),
    )
    identities = identities_of(given)
    for party in ("clean/2", "table"):
        for good in (party, f"holdfast:{party}", "edge-2", "10.0.0.2"):
            identities.check(party, good)
        for other in ("10.0.0.1", "edge-1", "clean/1", "127.0.0.1"):
            with pytest.raises(WireError, match=f"may not call as {party}"):
                identities.check(party, other)
    identities.check("readings", "127.0.0.1")


def test_without_security_there_is_none() -> None:
    assert security_of(topology()) is None


def test_secrets_are_found_beside_the_topology(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a long and secret token of the fleet\n")
    (tmp_path / "token").chmod(0o600)
    given = topology(home=tmp_path, security=Security(token_file="token"))
    security = security_of(given)
    assert security is not None
    assert not security.tls
    assert any(b"a long and secret token" in value for _, value in security.headers)


def shared(**settings: Any) -> Topology:
    steps = [Where("value > 0")]
    return topology({"policy": "share", "max_delay": "forever", "steps": steps, **settings})


def test_one_who_shares_the_work_stands_in_a_seat() -> None:
    given = shared()
    place = place_of(given, "clean/2", "clean@1")
    assert place.name == "clean@1"
    assert place.peers == ()
    assert place.outputs.keys() == place.readers.keys() == place.retentions.keys() == {"clean@1"}
    assert place.readers["clean@1"] == given.readers("clean")


def test_those_before_it_keep_what_its_seats_lack() -> None:
    assert shared().readers("readings")[:2] == ("clean@1", "clean@2")


def test_who_reads_shared_work_reads_all_seats() -> None:
    given = shared()
    place = place_of(given, "means/1")
    assert place.inputs["clean@1"] == ("clean/1", "clean/2")
    assert place.inputs["clean@2"] == ("clean/2", "clean/1")
    assert {number for number, _ in inputs_of(given, "means").values()} == {0}


def test_colleagues_look_after_each_other_less_often_than_readers_do() -> None:
    rules = rules_of(shared(heartbeat="20ms", missed=4, guarantee="at-most-once"), "clean")
    assert rules.guarantee.value == "at-most-once"
    assert rules.period == 100_000
    assert rules.missed == 4


def test_whoever_sits_in_a_seat_reads_in_its_own_name_and_for_the_seat() -> None:
    identities = identities_of(shared())
    assert reader_for("clean@2", "clean/1") == "clean@2/1"
    identities.check("clean@2/1", "clean/1")
    with pytest.raises(WireError, match="may not call as clean@2/1"):
        identities.check("clean@2/1", "means/1")
