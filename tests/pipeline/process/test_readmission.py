"""Whom `holdfast readmit` asks; what they do is in test_votes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError, UnreachableError
from holdfast.pipeline.process.fault_tracker import readmit
from holdfast.pipeline.topology import Console, Push, Sink, Stage, Stream, Topology


def topology(policy: str) -> Topology:
    def addresses(count: int) -> list[str]:
        return [f"127.0.0.1:{free_port()}" for _ in range(count)]

    return Topology(
        name="rig",
        bucket="1s",
        streams={"a": Stream(source=Push(schema={"v": "bigint"}), address=addresses(1)[0])},
        stages={
            "clean": Stage(inputs=["a"], replicas=addresses(4)),
            "sums": Stage(inputs=["clean"], replicas=addresses(2), policy=policy),
        },
        sinks={"screen": Sink(stream="sums", sink=Console())},
        home=Path(),
    )


@pytest.mark.parametrize("party", ["clean/5", "clean", "a", "screen", "nobody/1"])
def test_only_replicas_of_stages_are_admitted(party: str) -> None:
    with pytest.raises(InvalidArgumentError, match="give STAGE/REPLICA"):
        list(readmit(topology("vote"), party))


@pytest.mark.parametrize("party", ["clean/1", "sums/1"])
def test_where_nobody_votes_nobody_is_in_quarantine(party: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no stage of the topology votes on"):
        list(readmit(topology("switch"), party))


def test_who_does_not_answer_is_told() -> None:
    lines = readmit(topology("vote"), "clean/2")
    assert next(lines).startswith("sums/1: cannot be asked")
    assert next(lines).startswith("sums/2: cannot be asked")
    with pytest.raises(UnreachableError, match="nobody who votes on clean answers"):
        next(lines)
