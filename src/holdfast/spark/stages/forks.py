"""Shelves with a fork: records of the base, and those in which the fork differs from it.

A fork costs nothing to make. Who writes keeps the other's view: the fork writes beside the base's
records, and before the base changes a record that the fork still shares, the fork gets the old one.
Dropping a fork deletes what lies beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

__all__ = ["GONE", "ForkableShelf", "Records"]

GONE: Final = "gone"
"""In the place of a record that the base has and the fork has not."""


class Records(Protocol):
    """Where records lie, under (name, number)."""

    def read(self, name: Any, number: int) -> Any: ...

    def write(self, name: Any, number: int, record: Any) -> None: ...

    def delete(self, name: Any, number: int) -> None: ...

    def raw_items(self) -> Iterator[tuple[Any, int, bytes]]: ...

    def write_raw(self, name: Any, number: int, record: bytes) -> None: ...

    def clear(self) -> None: ...

    def items(self) -> Iterator[tuple[Any, int, Any]]: ...


class ForkableShelf:
    """The records of the base, with those of its fork beside them."""

    def __init__(self, base: Records, beside: Records, *, forked: bool) -> None:
        self._base = base
        self._beside = beside
        self.forked = forked

    def fork(self) -> None:
        self._beside.clear()
        self.forked = True

    def drop(self) -> None:
        self._beside.clear()
        self.forked = False

    @property
    def base(self) -> _BaseView:
        return _BaseView(self)

    @property
    def tip(self) -> _ForkView:
        """The fork."""
        return _ForkView(self)

    def records(self) -> Iterator[tuple[Any, int, bytes]]:
        """Those of the base, encoded."""
        return self._base.raw_items()

    def install(self, name: Any, number: int, record: bytes) -> None:
        """Put an encoded record into the base."""
        self.keep_for_fork(name, number)
        self._base.write_raw(name, number, record)

    def clear_base(self) -> None:
        if self.forked:
            for name, number, _ in list(self._base.items()):
                self.keep_for_fork(name, number)
        self._base.clear()

    def keep_for_fork(self, name: Any, number: int) -> None:
        """The base is about to change this record."""
        if self.forked and self._beside.read(name, number) is None:
            old = self._base.read(name, number)
            self._beside.write(name, number, GONE if old is None else (old,))


class _BaseView:
    def __init__(self, shelf: ForkableShelf) -> None:
        self._shelf = shelf

    def read(self, name: Any, number: int) -> Any:
        return self._shelf._base.read(name, number)

    def write(self, name: Any, number: int, record: Any) -> None:
        self._shelf.keep_for_fork(name, number)
        self._shelf._base.write(name, number, record)

    def delete(self, name: Any, number: int) -> None:
        self._shelf.keep_for_fork(name, number)
        self._shelf._base.delete(name, number)


class _ForkView:
    def __init__(self, shelf: ForkableShelf) -> None:
        self._shelf = shelf

    def read(self, name: Any, number: int) -> Any:
        own = self._shelf._beside.read(name, number)
        if own is None:
            return self._shelf._base.read(name, number)
        return None if own == GONE else own[0]

    def write(self, name: Any, number: int, record: Any) -> None:
        self._shelf._beside.write(name, number, (record,))

    def delete(self, name: Any, number: int) -> None:
        if self._shelf._base.read(name, number) is None:
            self._shelf._beside.delete(name, number)
        else:
            self._shelf._beside.write(name, number, GONE)
