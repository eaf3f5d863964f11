"""The state of a stage as bytes: what a replica that has lost its own is given by a peer."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from holdfast.errors import StoreCorruptError

__all__ = ["join_states", "split_state"]

SCHEMA = pa.schema([("shard", pa.int32()), ("records", pa.binary())])


def join_states(shards: Mapping[int, bytes]) -> bytes:
    """The states of all shards in one."""
    table = pa.table([list(shards), list(shards.values())], schema=SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def split_state(state: bytes) -> dict[int, bytes]:
    """The state of each shard; none if there is no state."""
    if not state:
        return {}
    try:
        table = pa.ipc.open_stream(state).read_all()
        table.validate(full=True)
        if table.schema != SCHEMA:
            raise pa.ArrowInvalid(f"it has {table.schema.names}")
    except (pa.ArrowException, OSError) as error:
        raise StoreCorruptError(f"a copied state cannot be read ({error})") from None
    return dict(zip(table["shard"].to_pylist(), table["records"].to_pylist(), strict=True))
