"""Spark's map state as a shelf for a shard window, with its traffic counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.stateful_processor import MapState

from holdfast.windows.stores.codec import StateCodec

__all__ = ["StateShelf"]

_CODEC: Final = StateCodec()


@dataclass
class StateShelf:
    """Records of the shard that Spark is at, under (name, number)."""

    state: MapState
    read_count: int = 0
    written_count: int = 0
    deleted_count: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def read(self, name: Any, number: int) -> Any:
        found = self.state.getValue((name, number))
        if found is None:
            return None
        record = bytes(found[0])
        self.read_count += 1
        self.bytes_read += len(record)
        return _CODEC.decode(record)

    def write(self, name: Any, number: int, record: Any) -> None:
        encoded = _CODEC.encode(record)
        self.state.updateValue((name, number), (encoded,))
        self.written_count += 1
        self.bytes_written += len(encoded)

    def delete(self, name: Any, number: int) -> None:
        self.state.removeKey((name, number))
        self.deleted_count += 1

    def clear(self) -> None:
        self.state.clear()

    def raw_items(self) -> Iterator[tuple[Any, int, bytes]]:
        """All records as they lie there, one at a time: several may be too much for Spark."""
        for name, number in list(self.state.keys()):
            found = self.state.getValue((name, number))
            if found is not None:
                yield name, number, bytes(found[0])

    def write_raw(self, name: Any, number: int, record: bytes) -> None:
        """Write a record that is encoded already."""
        self.state.updateValue((name, number), (record,))

    def items(self) -> Iterator[tuple[Any, int, Any]]:
        """All records, with their names and numbers."""
        for (name, number), (record,) in self.state.iterator():
            yield name, number, _CODEC.decode(bytes(record))
