"""The journal of a load manager on disk, and what its books say when it does not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import StoreCorruptError
from holdfast.protocol.contracts import Record
from holdfast.verify.journal import Journal

__all__ = ["Kept", "Written", "open_journal", "open_letters", "pack", "unpack"]

KINDS: Final[Mapping[str, type[Record]]] = {kind.__name__: kind for kind in Record.__args__}


class Kept(msgspec.Struct, array_like=True, frozen=True):
    """A letter that binds, sent or received, as it was signed."""

    partner: str
    envelope: bytes


class Written(msgspec.Struct, array_like=True, frozen=True):
    """A record as it lies on disk."""

    kind: str
    body: bytes


def pack(record: Record) -> Written:
    return Written(type(record).__name__, msgspec.msgpack.encode(record))


def unpack(written: Iterable[Written]) -> list[Record]:
    found: list[Record] = []
    for number, each in enumerate(written, 1):
        kind: Any = KINDS.get(each.kind)
        try:
            if kind is None:
                raise msgspec.ValidationError(f"{each.kind!r} is no record")
            found.append(msgspec.msgpack.decode(each.body, type=kind))
        except msgspec.MsgspecError as error:
            raise StoreCorruptError(
                f"journal: entry {number} cannot be read ({error}); it is of another version"
            ) from None
    return found


def open_letters(folder: Path) -> Journal[Kept]:
    return Journal(folder, Kept)


def open_journal(folder: Path) -> Journal[Written]:
    return Journal(folder, Written)
