"""Records of a shard of which the small ones lie together, as one record of Spark's state.

Every call to Spark's state goes to another process and back. Most records of a shard are small and
needed in every batch, so they are read once and written once; large ones lie by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.spark.stages.forks import Records
from holdfast.windows.stores.codec import StateCodec

__all__ = ["Bundle"]

SMALL: Final = 2**12
"""Bytes of a record that may lie with others."""
FULL: Final = 2**16
"""Bytes of all that lie together, at most."""

_CODEC: Final = StateCodec()
_PLACE: Final = ("", 0)
"""Where the bundle lies; no other record has an empty name."""


class Bundle:
    """The records in `where`; changes to small ones are there when they are saved."""

    def __init__(self, where: Records) -> None:
        self._where = where
        self._records: dict[tuple[Any, int], bytes | None] = {}
        """All there are; None for those that lie by themselves."""
        self._mark = False
        self._changed = False
        found = where.read(*_PLACE)
        if found is not None:
            self._mark, records = found
            self._records = {(name, number): record for name, number, record in records}
        self._size = sum(len(record) for record in self._records.values() if record is not None)

    @property
    def mark(self) -> bool:
        """A note that is kept with the records."""
        return self._mark

    @mark.setter
    def mark(self, mark: bool) -> None:
        self._changed |= mark != self._mark
        self._mark = mark

    def read(self, name: Any, number: int) -> Any:
        if (name, number) not in self._records:
            return None
        record = self._records[name, number]
        return self._where.read(name, number) if record is None else _CODEC.decode(record)

    def write(self, name: Any, number: int, record: Any) -> None:
        at = name, number
        encoded = _CODEC.encode(record)
        former = self._records.get(at)
        size = self._size - len(former or b"")
        if len(encoded) <= SMALL and size + len(encoded) <= FULL:
            if at in self._records and former is None:
                self._where.delete(name, number)
            self._changed |= former != encoded
            self._records[at] = encoded
            self._size = size + len(encoded)
            return
        self._where.write(name, number, record)
        self._changed |= at not in self._records or former is not None
        self._records[at] = None
        self._size = size

    def delete(self, name: Any, number: int) -> None:
        at = name, number
        if at not in self._records:
            return
        record = self._records.pop(at)
        if record is None:
            self._where.delete(name, number)
        else:
            self._size -= len(record)
        self._changed = True

    def clear(self) -> None:
        self._changed |= bool(self._records)
        for (name, number), record in self._records.items():
            if record is None:
                self._where.delete(name, number)
        self._records = {}
        self._size = 0

    def items(self) -> Iterator[tuple[Any, int, Any]]:
        for name, number in list(self._records):
            yield name, number, self.read(name, number)

    def save(self) -> None:
        if not self._changed:
            return
        records = [(*at, record) for at, record in self._records.items()]
        self._where.write(*_PLACE, (self._mark, records))
        self._changed = False
