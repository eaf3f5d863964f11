"""Replicas that lie: what they publish is tampered with on its way out.

In a test, `tell_lies` puts a lie between a replica and its readers. `python -m harness.lies LIE`
with the arguments of `holdfast node` is a node that lies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.parties.neighbours import Neighbours
from holdfast.protocol.messages import Again, Feed, Item, Message, Stable
from holdfast.tuples import Row, Segment
from holdfast.wire.chunks import Chunk

__all__ = ["LIES", "Lie", "shifted", "tampered", "tell_lies"]

Lie = Callable[[str, Chunk], Chunk]
"""What it makes of a chunk for this reader."""
FAR: Final = 10**6
"""Buckets."""


def _wrong_value(reader: str, chunk: Chunk) -> Chunk:
    return shifted(chunk, 1)


def _wrong_count(reader: str, chunk: Chunk) -> Chunk:
    table = chunk.table()
    return Chunk.of(pa.concat_tables([table, table.slice(0, 1)]))


def _other_to_each(reader: str, chunk: Chunk) -> Chunk:
    return shifted(chunk, 1 + sum(reader.encode()))


def _right_hash(reader: str, chunk: Chunk) -> Chunk:
    wrong = shifted(chunk, 1)
    return Chunk(wrong.read(), wrong.rows, wrong.size, chunk.digest)


def shifted(chunk: Chunk, by: int) -> Chunk:
    """All whole numbers are greater."""
    table = chunk.table()
    columns = [
        pc.add(column, pa.scalar(by, column.type)) if pa.types.is_integer(column.type) else column
        for column in table.columns
    ]
    return Chunk.of(pa.table(columns, schema=table.schema))


LIES: Final[Mapping[str, Lie | None]] = {
    "wrong-value": _wrong_value,
    "wrong-count": _wrong_count,
    "other-to-each": _other_to_each,
    "right-hash": _right_hash,
    "far-ahead": None,
}
"""By name. `far-ahead` tells no wrong rows, but of buckets that are not yet."""


def tampered(lie: str, reader: str, message: Message) -> Message:
    """What a liar sends in the place of a message."""
    if not isinstance(message, Feed):
        return message
    tell = LIES[lie]
    if tell is not None:
        items = tuple(_told(item, tell, reader) for item in message.items)
    else:
        items = tuple(each for item in message.items for each in (_far_ahead(item), item))
    return replace(message, items=items)


def _told(item: Item, tell: Lie, reader: str) -> Item:
    if not isinstance(item, Stable | Again):
        return item
    segment = item.segment
    rows = tuple(Row(row.stime, None, tell(reader, row.value)) for row in segment.rows)
    return replace(item, segment=Segment(segment.start, segment.end, rows))


def _far_ahead(item: Item) -> Item:
    """The same, but of a bucket that is not yet."""
    if not isinstance(item, Stable):
        return item
    segment = item.segment
    by = FAR * (segment.end - segment.start)
    rows = tuple(row._replace(stime=row.stime + by) for row in segment.rows)
    return Stable(Segment(segment.start + by, segment.end + by, rows))


def tell_lies(neighbours: Neighbours, lie: str) -> None:
    """Let a party lie to all its readers from now on."""
    send = neighbours.send
    neighbours.send = lambda to, message: send(to, tampered(lie, to, message))  # type: ignore[method-assign]


def _main(lie: str, arguments: list[str]) -> None:
    """Run a party that lies."""
    from holdfast.cli import main

    send = Neighbours.send

    def lying(self: Any, to: str, message: Message) -> None:
        send(self, to, tampered(lie, to, message))

    Neighbours.send = lying  # type: ignore[method-assign]
    sys.argv = ["holdfast", "node", *arguments]
    main()


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
