from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from holdfast.pipeline.stages.entries import Order
from holdfast.pipeline.stages.results import results_in
from holdfast.pipeline.stages.rows import BODY, BUCKET, ENTRY, PLACE, order_columns, row_columns
from holdfast.pipeline.stages.states import PIECE, StateFile, StateFiles
from holdfast.storage.chunks import Chunk
from holdfast.windows.stores.codec import StateCodec

SIZE = 100
CODEC = StateCodec()
NOTHING = StateFiles(()).write()
REPORT = CODEC.encode(("/copies/7", [(3, ["a" * 64])]))
SCHEMA = pa.schema(
    [pa.field("stime", pa.timestamp("us", "UTC"), nullable=False), ("name", pa.string())]
)
GIVEN = pa.schema(
    [
        *((name, pa.int64()) for name in (ENTRY, BUCKET, PLACE)),
        (BODY, pa.binary()),
        *((field.name, field.type) for field in SCHEMA),
    ]
)


def _row(entry: int, stime: int, which: int, place: int) -> dict[str, object]:
    hidden = row_columns(entry, which, stime // SIZE, place + 1)
    name = f"{entry} {stime} {which} {place}"
    return {n: each[-1].as_py() for n, each in hidden.items()} | {"stime": stime, "name": name}


def _order(
    entry: int, order: Order, shard: int = 0, body: bytes | None = None
) -> dict[str, object]:
    hidden = order_columns(entry, int(order), 0, False, {shard: body})
    return {n: each[0].as_py() for n, each in hidden.items()} | {"stime": None, "name": None}


def _table(rows: list[dict[str, object]], pieces: int = 1) -> pa.Table:
    """In several pieces, as Spark gives it."""
    table = pa.Table.from_pylist(rows, schema=GIVEN)
    edges = np.linspace(0, len(rows), pieces + 1).astype(int).tolist()
    return pa.concat_tables([table.slice(a, b - a) for a, b in pairwise(edges)])


def _names(chunks: tuple[tuple[int, Chunk], ...]) -> dict[int, list[str]]:
    return {bucket: chunk.table()["name"].to_pylist() for bucket, chunk in chunks}


@pytest.mark.parametrize("seed", range(20))
def test_rows_come_in_one_order_however_they_came(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [
        (entry, int(rng.integers(0, 400)), int(rng.integers(0, 2)), place)
        for entry in (3, 4, 7)
        for place in range(int(rng.integers(0, 40)))
    ]
    rows = [_row(*key) for key in keys]
    rows += [_order(entry, Order.WORK, shard) for entry in (3, 4, 5, 7) for shard in (0, 1)]
    rng.shuffle(rows)
    results = {r.entry: r for r in results_in(_table(rows, 3), SCHEMA, SIZE)}
    assert sorted(results) == [3, 4, 5, 7]
    for entry, result in results.items():
        wanted: dict[int, list[str]] = {}
        for key in sorted(each for each in keys if each[0] == entry):
            wanted.setdefault(key[1] // SIZE, []).append(" ".join(map(str, key)))
        assert _names(result.chunks) == wanted
        assert all(chunk.table().schema == SCHEMA for _, chunk in result.chunks)


def test_rows_that_come_in_order_give_the_same_chunks_as_rows_that_do_not() -> None:
    rows = [_row(1, 10 * place, 0, place) for place in range(50)]
    orders = [_order(1, Order.WORK, shard) for shard in (0, 1)]
    [straight] = results_in(_table([*rows, *orders]), SCHEMA, SIZE)
    [backwards] = results_in(_table([*orders, *rows[::-1]], 4), SCHEMA, SIZE)
    assert straight == backwards
    assert [bucket for bucket, _ in straight.chunks] == [0, 1, 2, 3, 4]


def test_columns_that_only_states_need_may_be_missing() -> None:
    rows = [_row(1, 10 * place, place % 2, place) for place in range(50)]
    table = _table([*rows, _order(1, Order.WORK), _order(2, Order.COPY, 5, REPORT)])
    flat = table.drop_columns([BUCKET])
    assert list(results_in(flat, SCHEMA, SIZE)) == list(results_in(table, SCHEMA, SIZE))
    [work, copy] = results_in(flat.drop_columns([BODY]), SCHEMA, SIZE)
    assert len(work.chunks) == 5
    assert copy.state == NOTHING


def test_entries_without_rows_give_results_too() -> None:
    rows = [_order(8, Order.FORK), _order(9, Order.DROP)]
    results = list(results_in(_table(rows), SCHEMA, SIZE))
    assert [(r.entry, r.order, r.chunks, r.state) for r in results] == [
        (8, Order.FORK, (), NOTHING),
        (9, Order.DROP, (), NOTHING),
    ]


def test_a_copy_has_the_files_of_all_steps_of_all_shards() -> None:
    reports = {0: [(3, ["a" * 64]), (0, [])], 5: [(PIECE + 1, ["b" * 64, "c" * 64]), (0, [])]}
    rows = [
        _order(2, Order.COPY, shard, CODEC.encode(("/copies/7", steps)))
        for shard, steps in reports.items()
    ]
    [result] = results_in(_table(rows), SCHEMA, SIZE)
    assert StateFiles.read(result.state).files == (
        StateFile("0-0", 3, ("a" * 64,)),
        StateFile("1-0", 0, ()),
        StateFile("0-5", PIECE + 1, ("b" * 64, "c" * 64)),
        StateFile("1-5", 0, ()),
    )
