"""Four replicas of a stage on Spark, one of which lies, and a reader that votes on them.

`make soak PART=votes` has every policy, other liars, crashes, and a stage on Spark that votes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.deployment import Deployment
from harness.streams import Row
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.process.tail import read_stream

LIAR = "clean/4"
LONG_ENOUGH = 30
"""Pieces of the stream."""


def rows_in(told: Told) -> list[Row]:
    rows = [] if told.rows is None else told.rows.to_pylist()
    return [(round(r["stime"].timestamp() * 1e6), r["sensor"], r["value"]) for r in rows]


@pytest.mark.timeout(300)
def test_a_replica_on_spark_that_lies_is_outvoted_and_named(tmp_path: Path) -> None:
    with Deployment(
        tmp_path,
        bucket="500ms",
        sources=("a",),
        replicas=4,
        window=False,
        liars={LIAR: "wrong-value"},
    ) as deployment:
        deployment.wait_until_ready()
        with read_stream(deployment.topology, "clean", position="oldest", policy="vote") as reader:
            heard: list[Told] = []
            while len(heard) < LONG_ENOUGH or reader.found["quarantined"] != [LIAR]:
                told = reader.next(60)
                assert told is not None, f"nothing after {heard[-1:]}"
                heard.append(told)
            found = reader.found
        ends = [told.boundary for told in heard]
        assert ends == sorted(set(ends))
        assert {told.kind for told in heard} == {Kind.INSERT}
        rows = [row for told in heard for row in rows_in(told)]
        assert rows == deployment.right_rows("clean", ends[-1])
        assert rows
        assert set(found["accused"]) == {LIAR}
