from __future__ import annotations

import math
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import aggregates
from holdfast.pipeline.topology import (
    Callback,
    Console,
    Delta,
    Files,
    Function,
    Join,
    Mqtt,
    Parquet,
    Push,
    Rate,
    Replica,
    Security,
    Select,
    Sensors,
    Sink,
    Span,
    Sql,
    SqlTable,
    Stage,
    Stream,
    Topology,
    Where,
    Window,
)
from holdfast.pipeline.topology.reference import EXAMPLE
from holdfast.pipeline.topology.writing import write_value

SCHEMA = {"sensor": "string", "a b": "decimal(5,2)", "ü.x": "array<struct<p:int,q:string>>"}


def draw_topology(random: Random) -> Topology:
    """A topology that is right, with something of everything."""
    ports = iter(range(1_000, 60_000))

    def address() -> str:
        host = random.choice(["127.0.0.1", "localhost", "[::1]", "127.8.9.1"])
        return f"{host}:{next(ports)}"

    def maybe(value: Any) -> Any:
        return value if random.random() < 0.5 else None

    sources = [
        lambda: Push(SCHEMA),
        lambda: Files("a/b.csv", random.choice(["csv", "jsonl", "parquet"]), SCHEMA,
                      pace=maybe(random.choice([1, 0.5, 1e9])), follow=random.random() < 0.5),
        lambda: Mqtt("broker.example:1883", ["a/#", "+/b"], SCHEMA, username=maybe("u")),
    ]  # fmt: skip
    streams = {
        f"in-{at}": Stream(
            random.choice(sources)(),
            address(),
            host=maybe("edge-1"),
            retain=maybe(Span(random.randint(10**12, 10**13))),
        )
        for at in range(random.randint(1, 3))
    }
    alike = list(streams)
    streams["rate"] = Stream(Rate(rows_per_second=5), address(), time="timestamp", lateness="2s")
    streams["sensors"] = Stream(Sensors(rows_per_second=2.5, seed=3), address())
    stages = {}
    for at in range(random.randint(0, 5)):
        steps: list[Any] = [
            random.choice(
                [
                    Where("`a b` > 1 AND sensor = 'it''s \"so\"\\n'"),
                    Sql("SELECT *\nFROM input -- all\t"),
                    Select(["sensor", "`a b` AS `a b`", "'€' AS `ü.x`"]),
                ]
            )
            for _ in range(random.randint(0, 2))
        ]
        if random.random() < 0.5:
            made = [aggregates.count(), "max(`a b`) AS `m n`", "last(`ü.x`)", "sum(stime) AS s"]
            steps.append(Window(f"{random.randint(10, 99)}s", random.sample(made, 2),
                                slide=maybe("7s")))  # fmt: skip
        steps.append(Function("my.module:clean", SCHEMA))
        inputs = random.sample(alike, random.randint(1, len(alike)))
        if len(inputs) == 2 and random.random() < 0.5:
            steps.insert(0, Join(["sensor"], "1s"))
            steps[1:-1] = []
        replicas = [Replica(address(), host=maybe("edge-2")) for _ in range(random.randint(1, 3))]
        stages[f"stage_{at}"] = Stage(
            inputs,
            replicas,
            max_delay=random.choice(["4s", "forever", math.inf, "1 hour 30 minutes"]),
            shards=random.randint(1, 9),
            heartbeat=f"{random.randint(1, 800)}ms",
            steps=steps,
        )
        alike.append(f"stage_{at}")
    outputs = [
        Parquet("p"), Delta("d"), SqlTable("sqlite:///x.db", "t", keys=["sensor"]), Console(),
        Callback("a:b"),
    ]  # fmt: skip
    sinks = {
        f"out-{at}": Sink(random.choice(alike), output, host=maybe("h"),
                          tentative=isinstance(output, Console | Callback))
        for at, output in enumerate(random.sample(outputs, random.randint(0, 5)))
    }  # fmt: skip
    return Topology(
        name="drawn",
        bucket=random.choice(["500ms", "1001us", "1s"]),
        folder=maybe("ein Ördner"),
        security=maybe(Security(token_env="TOKEN", certificate="c", key="k", authority="a",
                                mutual=random.random() < 0.5)),
        streams=streams,
        stages=stages,
        sinks=sinks,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(150))
def test_what_is_written_is_read_again(seed: int, tmp_path: Path) -> None:
    topology = draw_topology(Random(seed))
    path = tmp_path / "other-name.toml"
    path.write_text(topology.text(), encoding="utf-8")
    again = Topology.read(path)
    assert again == topology
    assert again.text() == topology.text()


def test_defaults_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(EXAMPLE)
    text = Topology.read(tmp_path / "fleet.toml").text()
    assert not {"shards", "heartbeat", "faults", "folder", "follow"} & {
        line.partition(" =")[0] for line in text.splitlines()
    }


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_is_toml(value: Any) -> None:
    assert tomllib.loads(f"x = {write_value(value)}") == {"x": value}
