"""Arrow tables from anybody."""

from __future__ import annotations

import random
import struct

import pyarrow as pa
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.wire.chunks import digest_of
from holdfast.wire.errors import WireError
from holdfast.wire.untrusted import check_table, read_table
from tests.wire.samples import mutate, readings


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
