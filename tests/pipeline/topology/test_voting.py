"""What a topology whose replicas are voted on is warned of."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console as Screen

from holdfast.pipeline.topology import (
    Console,
    Push,
    Replica,
    Security,
    Sink,
    Stage,
    Stream,
    Topology,
)
from holdfast.pipeline.topology.check import check
from holdfast.pipeline.topology.rules import find_warnings

SECURITY = Security(token_file="token", certificate="a", key="b", authority="c")
APART = [f"10.0.0.{at}:7101" for at in range(1, 5)]
HERE = [f"127.0.0.1:{7100 + at}" for at in range(1, 5)]


def topology(
    replicas: list[str | Replica], *, policy: str = "vote", last: str = "switch"
) -> Topology:
    """`clean` with these replicas, and `sums` with as many, which has this policy; its sink has the
    `last` one."""
    sums = [f"10.0.1.{at}:7101" for at in range(1, 5)]
    return Topology(
        name="t",
        bucket="1s",
        security=SECURITY,
        streams={"a": Stream(source=Push(schema={"x": "bigint"}), address="10.0.0.9:7001")},
        stages={
            "clean": Stage(inputs=["a"], replicas=replicas),
            "sums": Stage(inputs=["clean"], replicas=sums, policy=policy),
        },
        sinks={"shown": Sink(stream="sums", sink=Console(), policy=last)},
    )


def said(topology: Topology) -> list[str]:
    return [str(warning) for warning in find_warnings(topology)]


def test_replicas_on_hosts_of_their_own_are_fine() -> None:
    assert said(topology(APART)) == []
    tunnelled = [Replica(address=address, host=f"edge-{at}") for at, address in enumerate(HERE)]
    assert said(topology(tunnelled)) == []


def test_replicas_that_nobody_votes_on_may_share_a_host() -> None:
    assert said(topology(HERE, policy="switch")) == []


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample"])
def test_replicas_that_are_voted_on_and_share_a_host_are_named(policy: str) -> None:
    (warning,) = said(topology([*APART[:3], "10.0.0.3:7102"], policy=policy))
    assert warning.startswith("[stages.clean] replicas: clean/3, clean/4 are all on '10.0.0.3'")
    assert "[stages.sums] votes on them" in warning


def test_hosts_are_known_by_their_labels() -> None:
    labelled = [Replica(address=address, host="edge") for address in APART]
    (warning,) = said(topology(labelled))
    assert "clean/1, clean/2, clean/3, clean/4 are all on 'edge'" in warning


def test_one_machine_is_said_once() -> None:
    everywhere = ["127.0.0.1:7101", "localhost:7102", "[::1]:7103", "127.0.0.2:7104"]
    (warning,) = said(topology(everywhere))
    assert warning.startswith("[stages.clean] replicas: those that are voted on (clean) run on one")


def test_a_stage_that_samples_and_is_voted_on() -> None:
    (warning,) = said(topology(APART, policy="sample", last="vote"))
    assert warning.startswith("[stages.sums] policy: 'sample' may let a lie through on one replica")
    assert "[sinks.shown] would find an honest one of 'sums' lying" in warning


def test_a_check_tells_it_and_is_content(tmp_path: Path) -> None:
    file, screen = tmp_path / "t.toml", io.StringIO()
    file.write_text(topology(HERE).text())
    check(file, Screen(file=screen, width=200))
    lines = screen.getvalue().splitlines()
    assert [line.partition(" [")[0] for line in lines if "warning" in line] == [f"{file}: warning:"]
    assert f"{file}: fine" in lines[-1]
