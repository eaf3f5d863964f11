"""A folder is used for what it was made for, or refused with what has changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.pipeline.process.replica_host import (
    NOTE,
    check_purpose,
    source_purpose,
    stage_purpose,
)
from holdfast.pipeline.topology import (
    Console,
    Push,
    Sensors,
    Sink,
    Stage,
    Stream,
    Topology,
    Where,
    Window,
)
from tests.pipeline.process.replica_rig import Rig
from tests.pipeline.sources.rig import alone, party_of

READINGS = {"sensor": "string", "value": "double", "at": "timestamp"}
TOPOLOGY = Topology(
    name="fleet",
    bucket="500ms",
    streams={
        "readings": Stream(source=Push(schema=READINGS), address="127.0.0.1:7001", time="at"),
        "others": Stream(source=Push(schema=READINGS), address="127.0.0.1:7002"),
    },
    stages={
        "clean": Stage(
            inputs=["readings", "others"],
            replicas=["127.0.0.1:7101"],
            max_delay="2s",
            steps=[
                Where(where="value IS NOT NULL"),
                Window(size="10s", keys=["sensor"], aggregates=["mean(value) AS mean"]),
            ],
        )
    },
)


def schema(**columns: DataType) -> StructType:
    fields = {"stime": TimestampType(), **columns}
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def compiled(mean: DataType | None = None, *, inputs: int = 2) -> Any:
    """What Spark says of the stage, so far as it matters."""
    given = schema(sensor=StringType(), value=DoubleType(), at=TimestampType())
    published = schema(sensor=StringType(), mean=mean or DoubleType())
    return SimpleNamespace(published=published, inputs=(given,) * inputs)


def with_stage(**settings: Any) -> Topology:
    return replace(TOPOLOGY, stages={"clean": replace(TOPOLOGY.stages["clean"], **settings)})


def with_stream(stages: Mapping[str, Stage], **settings: Any) -> Topology:
    stream = replace(TOPOLOGY.streams["readings"], **settings)
    return replace(TOPOLOGY, streams={**TOPOLOGY.streams, "readings": stream}, stages=stages)


@pytest.mark.parametrize(
    "changed",
    [
        TOPOLOGY,
        with_stage(replicas=["127.0.0.1:8101", "127.0.0.1:8102"]),
        with_stage(max_delay="5s", heartbeat="50ms", missed=7),
        with_stage(retain="1h"),
        with_stage(policy="order", max_delay=math.inf),
        with_stream(TOPOLOGY.stages, address="127.0.0.1:8001", lateness="3s", retain="1h"),
        replace(TOPOLOGY, name="navy", folder="fleet-state"),
        replace(TOPOLOGY, bucket="0.5s"),
        replace(TOPOLOGY, sinks={"screen": Sink(stream="clean", sink=Console())}),
    ],
)
def test_what_does_not_matter_may_change(tmp_path: Path, changed: Topology) -> None:
    for topology in (TOPOLOGY, changed):
        check_purpose(tmp_path / "1", stage_purpose(topology, "clean", compiled()))
        check_purpose(tmp_path / "2", source_purpose(topology, "readings"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(TOPOLOGY, bucket="1s"), 'bucket was "500ms" and is "1s"'),
        (with_stage(shards=4), "shards was 2 and is 4"),
        (with_stage(inputs=["others", "readings"]), "inputs was "),
        (with_stage(inputs=["readings"]), "inputs was "),
        (with_stage(steps=TOPOLOGY.stages["clean"].steps[1:]), "value IS NOT NULL"),
    ],
)
def test_a_stage_that_calculates_something_else_is_refused(
    tmp_path: Path, changed: Topology, said: str
) -> None:
    folder = tmp_path / "clean" / "1"
    check_purpose(folder, stage_purpose(TOPOLOGY, "clean", compiled()))
    known = compiled(inputs=len(changed.stages["clean"].inputs))
    before = (folder / NOTE).read_bytes()
    with pytest.raises(InvalidArgumentError) as refused:
        check_purpose(folder, stage_purpose(changed, "clean", known))
    message = str(refused.value)
    assert message.startswith(f"{folder}: was made for another topology: ")
    assert said in message
    assert f"another `folder`, or delete {folder} to begin anew" in message
    assert (folder / NOTE).read_bytes() == before


def test_columns_that_have_changed_are_told(tmp_path: Path) -> None:
    check_purpose(tmp_path, stage_purpose(TOPOLOGY, "clean", compiled()))
    with pytest.raises(
        InvalidArgumentError,
        match='columns was "sensor string, mean double" and is "sensor string, mean float"',
    ):
        check_purpose(tmp_path, stage_purpose(TOPOLOGY, "clean", compiled(FloatType())))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(TOPOLOGY, bucket="1s"), 'bucket was "500ms" and is "1s"'),
        (with_stream({}, time=None), 'time was "at" and is ""'),
        (with_stream({}, source=Push(schema={**READINGS, "value": "float"})), "value float"),
        (
            with_stream({}, source=Sensors(rows_per_second=10), time=None),
            'source was "push" and is "sensors"',
        ),
    ],
)
def test_a_source_of_something_else_is_refused(
    tmp_path: Path, changed: Topology, said: str
) -> None:
    check_purpose(tmp_path, source_purpose(TOPOLOGY, "readings"))
    with pytest.raises(InvalidArgumentError, match="to begin anew") as refused:
        check_purpose(tmp_path, source_purpose(changed, "readings"))
    assert said in str(refused.value)


@pytest.mark.parametrize("damage", [b"", b"{", b"7", b"\xff"])
def test_a_note_that_cannot_be_read_is_told(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / NOTE).write_bytes(damage)
    with pytest.raises(StoreCorruptError, match=f"{NOTE}: cannot be read; delete it if"):
        check_purpose(tmp_path, source_purpose(TOPOLOGY, "readings"))


def test_a_source_refuses_the_folder_of_another(tmp_path: Path) -> None:
    topology = alone(tmp_path)
    with party_of(topology):
        pass
    found = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with (
        pytest.raises(InvalidArgumentError, match="schema was"),
        party_of(alone(tmp_path, Push(schema={"n": "bigint"}))),
    ):
        pass
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == found
    with party_of(topology):
        pass


@pytest.mark.usefixtures("no_spark")
def test_a_replica_refuses_the_folder_of_another(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        rig.open()
        rig.close()
        topology = rig.topology
        stage = topology.stages["sums"]
        rig.topology = replace(topology, stages={"sums": replace(stage, shards=5)})
        with pytest.raises(InvalidArgumentError, match="shards was 2 and is 5"):
            rig.open()
        rig.topology = replace(topology, stages={"sums": replace(stage, max_delay="9s")})
        rig.open()
