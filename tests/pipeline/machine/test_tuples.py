"""Ids, shards and buckets: the same for equal rows in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from holdfast.pipeline.machine.tuples import Id, Row, Segment, bucket_of, digest, identify, shard_of

ROWS = (Row(3, "a", 1), Row(3, "b", 2), Row(7, "a", 3), Row(12, "a", 4))


@pytest.mark.parametrize(
    ("stime", "bucket"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (-1, -1), (-10, -1)]
)
def test_a_bucket_begins_at_its_edge(stime: int, bucket: int) -> None:
    assert bucket_of(stime, 10) == bucket


@pytest.mark.parametrize(
    ("boundary", "start", "values"),
    [
        (-5, 0, [1, 2, 3, 4]),
        (0, 0, [1, 2, 3, 4]),
        (3, 3, [1, 2, 3, 4]),
        (4, 4, [3, 4]),
        (12, 12, [4]),
        (20, 20, []),
    ],
)
def test_what_lies_after_a_boundary(boundary: int, start: int, values: list[int]) -> None:
    rest = Segment(0, 20, ROWS).after(boundary)
    assert (rest.start, rest.end) == (start, 20)
    assert [row.value for row in rest.rows] == values


def test_ranks_count_within_bucket_and_shard() -> None:
    ids = identify(ROWS, 10, shards=1)
    assert ids == [Id(0, 0, 0), Id(0, 0, 1), Id(0, 0, 2), Id(1, 0, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_ids_are_unique_and_hold_for_whole_buckets_apart(seed: int) -> None:
    random = Random(seed)
    rows = sorted(
        (Row(random.randrange(100), random.randrange(9), i) for i in range(80)),
        key=lambda row: row.stime,
    )
    ids = identify(rows, 10, shards=4)
    assert len(set(ids)) == len(rows)
    apart = [
        each
        for bucket in range(10)
        for each in identify([r for r in rows if r.stime // 10 == bucket], 10, shards=4)
    ]
    assert apart == ids


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_shards_and_digests_do_not_depend_on_the_process(hash_seed: str) -> None:
    code = (
        "from holdfast.pipeline.machine.tuples import *\n"
        "print([shard_of(k, 64) for k in ('a', 'ä', 7, ('x', 1), None)],"
        " digest([Row(3, 'a', 1.5), Row(4, ('x', 2), None)]).hex())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    shards = [shard_of(k, 64) for k in ("a", "ä", 7, ("x", 1), None)]
    whole = digest([Row(3, "a", 1.5), Row(4, ("x", 2), None)]).hex()
    assert said.strip() == f"{shards} {whole}"
    assert all(0 <= shard < 64 for shard in shards)


def test_a_digest_tells_values_keys_times_and_order_apart() -> None:
    rows = [Row(1, "a", 1), Row(1, "b", 1)]
    others = [
        [],
        rows[:1],
        rows[::-1],
        [Row(1, "a", 1), Row(1, "b", 2)],
        [Row(1, "a", 1), Row(2, "b", 1)],
        [Row(1, "a", "1"), Row(1, "b", 1)],
        [Row(1, "a", 1), Row(1, "b\n", 1)],
    ]
    assert len({digest(each) for each in [rows, *others]}) == 1 + len(others)
