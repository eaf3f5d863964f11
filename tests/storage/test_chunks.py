"""Chunks: equal tables have equal digests however Arrow lays them out; others have others."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    InvalidArgumentError,
    StoreCorruptError,
    StoreUnavailableError,
    WireError,
)
from holdfast.pipeline.machine.tuples import Row, digest
from holdfast.storage.chunks import Chunk, digest_of, has_digest
from tests.transport.samples import mutate, readings

TYPES = [
    pa.int8(),
    pa.int64(),
    pa.uint32(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.binary(3),
    pa.timestamp("us", "UTC"),
    pa.date32(),
    pa.duration("us"),
    pa.decimal128(10, 2),
    pa.null(),
    pa.list_(pa.int32()),
    pa.list_(pa.string()),
    pa.large_list(pa.float64()),
    pa.list_(pa.int16(), 2),
    pa.list_(pa.list_(pa.string())),
    pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
    pa.list_(pa.struct([("x", pa.float64()), ("y", pa.string())])),
    pa.map_(pa.string(), pa.list_(pa.int8())),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.float64()),
]


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    small = st.integers(0, 100)
    if pa.types.is_dictionary(kind):
        return values_of(kind.value_type)
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_struct(kind):
        inner: st.SearchStrategy[Any] = st.fixed_dictionaries(
            {field.name: values_of(field.type) for field in kind}
        )
    elif pa.types.is_map(kind):
        keys = st.text("abc", max_size=2)
        inner = st.lists(st.tuples(keys, values_of(kind.item_type)), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        inner = st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        inner = st.text(max_size=4)
    elif pa.types.is_fixed_size_binary(kind):
        inner = st.binary(min_size=3, max_size=3)
    elif pa.types.is_binary(kind):
        inner = st.binary(max_size=4)
    elif pa.types.is_boolean(kind):
        inner = st.booleans()
    elif pa.types.is_floating(kind):
        inner = st.floats(width=32, allow_nan=False)
    else:
        inner = small
    return st.none() | inner


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(TYPES))
    return pa.array(draw(st.lists(values_of(kind), max_size=12)), kind)


def laid_out_otherwise(array: pa.Array, rng: random.Random) -> pa.ChunkedArray:
    """The same values: slices of larger arrays, cut anywhere, with other things around them."""
    around = pa.array([None] * rng.randrange(4), array.type)
    whole = pa.concat_arrays([array, around, array, around])
    pieces, start = [], len(array) + len(around)
    while start < 2 * len(array) + len(around):
        length = rng.randrange(0, 2 * len(array) + len(around) - start + 1)
        pieces.append(whole.slice(start, length))
        start += length
    return pa.chunked_array(pieces, array.type)


@given(columns(), st.integers(0, 2**32))
def test_layout_does_not_count(array: pa.Array, seed: int) -> None:
    other = pa.table({"c": laid_out_otherwise(array, random.Random(seed))})
    table = pa.table({"c": array})
    assert other.equals(table)
    chunk = Chunk.of(other)
    assert chunk == Chunk.of(table)
    assert chunk.rows == len(array)
    assert chunk.table().equals(table)
    assert has_digest(chunk.read(), chunk.digest)


@given(columns(), columns())
def test_other_tables_have_other_digests(one: pa.Array, two: pa.Array) -> None:
    first, second = pa.table({"c": one}), pa.table({"c": two})
    same = one.type == two.type and repr(one.to_pylist()) == repr(two.to_pylist())
    assert (digest_of(first) == digest_of(second)) == same


def test_what_lies_under_nulls_does_not_count() -> None:
    def numbers(*hidden: int) -> pa.Array:
        valid = pa.py_buffer(bytes([0b101]))
        return pa.Array.from_buffers(
            pa.int32(), 3, [valid, pa.py_buffer(struct.pack("<3i", 1, hidden[0], 3))]
        )

    def words(hidden: bytes) -> pa.Array:
        offsets = struct.pack("<4i", 0, 1, 1 + len(hidden), 2 + len(hidden))
        valid, text = pa.py_buffer(bytes([0b101])), pa.py_buffer(b"a" + hidden + b"c")
        return pa.Array.from_buffers(pa.string(), 3, [valid, pa.py_buffer(offsets), text])

    for one, two in [(numbers(5), numbers(6)), (words(b""), words(b"hidden"))]:
        assert digest_of(pa.table({"c": one})) == digest_of(pa.table({"c": two}))
        mask = pa.array([False, True, False])
        parents = [pa.StructArray.from_arrays([a], ["x"], mask=mask) for a in (one, two)]
        below = pa.StructArray.from_arrays([pa.array([1, 9, 3], pa.int32())], ["x"], mask=mask)
        assert digest_of(pa.table({"c": parents[0]})) == digest_of(pa.table({"c": parents[1]}))
        if one.type == pa.int32():
            assert digest_of(pa.table({"c": parents[0]})) == digest_of(pa.table({"c": below}))


def test_bits_of_floats_count() -> None:
    nans = struct.pack("<2Q", 0x7FF8000000000000, 0x7FF8000000000001)
    bits = [pa.array([x], pa.float64()) for x in (0.0, -0.0)]
    bits += [
        pa.Array.from_buffers(pa.float64(), 1, [None, pa.py_buffer(nans[i : i + 8])])
        for i in (0, 8)
    ]
    tables = [pa.table({"c": column}) for column in bits]
    tables += [pa.table({"c": column.dictionary_encode()}) for column in bits]
    assert len({digest_of(table) for table in tables}) == 8
    assert digest_of(tables[2]) == digest_of(tables[2])


MARK = {"org.apache.spark.sql.parquet.row.metadata": "{}"}


def marked(kind: pa.DataType) -> pa.DataType:
    """The type with metadata in it, and with other names of what has none to count."""
    if pa.types.is_struct(kind):
        return pa.struct([marked_field(field, field.name) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(marked_field(kind.key_field, "k"), marked_field(kind.item_field, "v"))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(marked_field(kind.value_field, "other"), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(marked_field(kind.value_field, "other"))
    if pa.types.is_list(kind):
        return pa.list_(marked_field(kind.value_field, "other"))
    return kind


def marked_field(field: pa.Field, name: str) -> pa.Field:
    return pa.field(name, marked(field.type), field.nullable, metadata=MARK)


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_what_a_digest_does_not_cover_is_not_in_a_chunk(kind: pa.DataType) -> None:
    """Neither of an own table nor of one that somebody sends under a right digest."""
    plain = Chunk.of(pa.table({"x": pa.nulls(2, kind)}))
    field = marked_field(pa.field("x", kind), "x")
    table = pa.table({"x": pa.nulls(2, field.type)}, pa.schema([field], metadata=MARK))
    for chunk in (Chunk.of(table), Chunk.received(stream_of(table), 2, plain.digest)):
        assert chunk.digest == plain.digest
        assert chunk.table().schema.equals(plain.table().schema, check_metadata=True)
        assert chunk.table() == plain.table()


@pytest.mark.parametrize("kind", [pa.uuid(), pa.list_(pa.uuid()), pa.json_()], ids=str)
def test_types_of_extensions_are_refused(kind: pa.DataType) -> None:
    """They come as metadata of plain ones, so that a reader could take them for others."""
    with pytest.raises(WireError, match="has no digest"):
        Chunk.received(stream_of(pa.table({"x": pa.nulls(2, kind)})), 2, bytes(32))


def test_types_names_and_nullability_count_and_metadata_does_not() -> None:
    column = pa.array(["a", "b"])
    table = pa.table({"c": column})
    strict = pa.schema([pa.field("c", pa.string(), nullable=False)])
    others = [
        pa.table({"d": column}),
        pa.table({"c": column.dictionary_encode()}),
        pa.table({"c": column.cast(pa.large_string())}),
        pa.table({"c": column.cast(pa.binary())}),
        pa.table([column], schema=strict),
        pa.table({"c": column, "d": column}),
    ]
    assert len({digest_of(other) for other in [table, *others]}) == 7
    marked = table.replace_schema_metadata({"pandas": "{}"})
    assert digest_of(marked) == digest_of(table)
    assert Chunk.of(marked).read() == Chunk.of(table).read()


def test_dictionaries_are_known_by_what_their_rows_say() -> None:
    def of(indices: list[int | None], words: list[str | None]) -> bytes:
        array = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(words))
        return digest_of(pa.table({"c": array}))

    assert of([0, 1, 0], ["a", "b"]) == of([2, 1, 3], ["x", "b", "a", "a"])
    assert of([0, None], ["a"]) == of([1, 0], [None, "a"])
    assert of([0, 1], ["a", "b"]) != of([1, 0], ["a", "b"])


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a"], pa.string_view()),
        pa.RunEndEncodedArray.from_arrays([1], [1]),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])),
    ],
)
def test_types_without_a_canonical_form_are_refused(array: pa.Array) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot hold .*; cast"):
        Chunk.of(pa.table({"c": array}))


def test_a_chunk_on_disk_is_the_same_chunk(tmp_path: Path) -> None:
    chunk = Chunk.of(readings(100))
    path = tmp_path / "log"
    path.write_bytes(b"before" + chunk.read() + b"after")
    moved = chunk.moved(path, 6)
    assert moved == chunk
    assert hash(moved) == hash(chunk)
    assert (moved.rows, moved.size, moved.in_memory) == (chunk.rows, chunk.size, False)
    assert moved.read() == chunk.read()
    assert moved.table().equals(readings(100))
    assert digest([Row(1, None, moved)]) == digest([Row(1, None, chunk)])
    path.write_bytes(b"before" + chunk.read()[:-1])
    with pytest.raises(StoreCorruptError, match=r"log: ends before byte"):
        moved.read()
    path.unlink()
    with pytest.raises(StoreUnavailableError, match=r"log: No such file"):
        moved.read()


def test_damage_is_found() -> None:
    chunk = Chunk.of(readings(50))
    rng = random.Random(1)
    for _ in range(1000):
        data = mutate(rng, chunk.read())
        if has_digest(data, chunk.digest):
            assert Chunk.received(data, 50, chunk.digest).table().equals(readings(50))
        else:
            with pytest.raises(WireError):
                Chunk.received(data, 50, chunk.digest)


def test_rows_are_counted() -> None:
    chunk = Chunk.of(readings(5))
    with pytest.raises(WireError, match="of 4 rows has 5"):
        Chunk.received(chunk.read(), 4, chunk.digest)


def test_no_rows_and_no_columns() -> None:
    assert Chunk.of(readings(0)).table().equals(readings(0))
    assert Chunk.of(pa.table({})).rows == 0
