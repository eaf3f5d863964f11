"""Arrow tables from anybody."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from holdfast.errors import InvalidArgumentError, WireError
from holdfast.storage import untrusted
from holdfast.storage.chunks import Chunk, digest_of
from holdfast.storage.untrusted import check_table, read_table
from tests.transport.samples import mutate, readings


def written(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


WORDS = pa.table({"c": pa.array(["a", "b", "a"]).dictionary_encode()})


@pytest.mark.parametrize("table", [readings(1000), readings(0), WORDS])
def test_tables_are_read(table: pa.Table) -> None:
    assert read_table(written(table)).equals(table)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("table", [readings(1000), WORDS])
def test_what_could_grow_is_refused(table: pa.Table, compression: str) -> None:
    with pytest.raises(WireError, match="compressed"):
        read_table(written(table, compression))


def test_columns_that_share_bytes_are_refused() -> None:
    """A million of them would take a million times as long to hash as to write."""
    columns, size = 8, 64 * 1024
    values = pa.array([bytes(1024)] * 64, pa.binary(1024))
    data = bytearray(written(pa.table({f"c{at}": values for at in range(columns)})))
    # Of each column where its validity lies, which has no bytes, and then where its values do.
    places = [number for at in range(columns) for number in (at * size, 0, at * size, size)]
    at = data.index(struct.pack(f"<{len(places)}q", *places))
    struct.pack_into(f"<{len(places)}q", data, at, *(0, 0, 0, size) * columns)
    struct.pack_into("<q", data, data.index(struct.pack("<q", columns * size)), size)
    end = len(data) - 8
    del data[end - (columns - 1) * size : end]
    assert pa.ipc.open_stream(bytes(data)).read_all().num_columns == columns, "Arrow reads it"
    with pytest.raises(WireError, match="share bytes"):
        read_table(bytes(data))


def test_many_batches_may_name_one_dictionary() -> None:
    words = pa.array(["word" * 100]).dictionary_encode()
    table = pa.table({"c": pa.chunked_array([words] * 50)})
    chunk = Chunk.of(table)
    assert Chunk.received(chunk.read(), 50, chunk.digest).table() == table.combine_chunks()


def test_there_may_be_only_so_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted, "MAX_METADATA", 2**16)
    table = pa.table({f"c{at}": pa.nulls(0) for at in range(2000)})
    assert read_table(written(table.select(range(100)))).num_columns == 100
    with pytest.raises(WireError, match="too many columns"):
        read_table(written(table))


def test_tampered_tables_are_read_or_refused() -> None:
    rng = random.Random(4)
    for table in (readings(20), WORDS):
        data = written(table)
        for _ in range(1000):
            try:
                digest_of(read_table(mutate(rng, data)))
            except (WireError, InvalidArgumentError):
                continue


def test_offsets_that_lead_outside_are_found() -> None:
    offsets = pa.py_buffer(struct.pack("<3i", 0, 1_000_000, 2))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    with pytest.raises(WireError, match="damaged"):
        check_table(pa.table({"c": array}))
