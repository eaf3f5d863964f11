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

from holdfast.pipeline.gates.sample import KEY_BYTES, is_drawn
from holdfast.pipeline.machine.messages import Again, Feed, Item, Message, Stable
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.service import Neighbours
from holdfast.storage.chunks import Chunk

__all__ = ["CLEVER", "EVERY", "LIES", "NAMED", "Lie", "shifted", "tampered", "tell_lies"]

Lie = Callable[[str, Feed], Feed]
"""What it sends this reader in the place of a message."""
FAR: Final = 10**6
"""Buckets."""
EVERY: Final = 3
"""Readers of clever liars sample one bucket of so many."""


def _about(tell: Callable[[str, Chunk], Chunk]) -> Lie:
    """Lies about the rows of each bucket."""

    def told(item: Item, reader: str) -> Item:
        if not isinstance(item, Stable | Again):
            return item
        segment = item.segment
        rows = tuple(Row(row.stime, None, tell(reader, row.value)) for row in segment.rows)
        return replace(item, segment=Segment(segment.start, segment.end, rows))

    return lambda reader, feed: replace(feed, items=tuple(told(i, reader) for i in feed.items))


def _wrong_value(reader: str, chunk: Chunk) -> Chunk:
    return shifted(chunk, 1)


def _wrong_count(reader: str, chunk: Chunk) -> Chunk:
    table = chunk.table()
    return Chunk.of(pa.concat_tables([table, table.slice(0, 1)]))


def _other_to_each(reader: str, chunk: Chunk) -> Chunk:
    return shifted(chunk, 1 + sum(reader.encode()))


def _other_columns(reader: str, chunk: Chunk) -> Chunk:
    table = chunk.table()
    return Chunk.of(table.append_column("more", pa.nulls(table.num_rows, pa.int64())))


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


def _unless(is_sample: Callable[[int], bool]) -> Lie:
    """Lies about the buckets that it takes for no samples. A piece that is published is a bucket,
    but for those that come after a long break."""

    def told(item: Item) -> Item:
        if not isinstance(item, Stable | Again):
            return item
        segment = item.segment
        if is_sample(segment.start // (segment.end - segment.start)):
            return item
        rows = tuple(row._replace(value=shifted(row.value, 1)) for row in segment.rows)
        return replace(item, segment=Segment(segment.start, segment.end, rows))

    return lambda reader, feed: replace(feed, items=tuple(map(told, feed.items)))


def _counted(bucket: int) -> bool:
    return bucket % EVERY == 0


def _guessed(bucket: int) -> bool:
    return is_drawn(bytes(KEY_BYTES), EVERY, bucket)


def _far_ahead(reader: str, feed: Feed) -> Feed:
    """Buckets that are not yet, beside those that are."""
    items = tuple(each for item in feed.items for each in (_far(item), item))
    return replace(feed, items=items)


def _far(item: Item) -> Item:
    if not isinstance(item, Stable):
        return item
    segment = item.segment
    by = FAR * (segment.end - segment.start)
    rows = tuple(row._replace(stime=row.stime + by) for row in segment.rows)
    return Stable(Segment(segment.start + by, segment.end + by, rows))


def _omitting(reader: str, feed: Feed) -> Feed:
    return replace(feed, items=()) if feed.number % 3 == 2 else feed


def _repeating(reader: str, feed: Feed) -> Feed:
    return replace(feed, items=feed.items * 2)


def _disordering(reader: str, feed: Feed) -> Feed:
    """Every second message in the place of the one before."""
    return replace(feed, number=feed.number ^ 1, items=feed.items[::-1])


LIES: Final[Mapping[str, Lie]] = {
    "wrong-value": _about(_wrong_value),
    "wrong-count": _about(_wrong_count),
    "other-to-each": _about(_other_to_each),
    "other-columns": _about(_other_columns),
    "right-hash": _about(_right_hash),
    "far-ahead": _far_ahead,
    "omitting": _omitting,
    "repeating": _repeating,
    "disordering": _disordering,
    "counting": _unless(_counted),
    "predicting": _unless(_guessed),
}
"""By name."""
NAMED: Final = ("wrong-value", "wrong-count", "other-to-each", "other-columns")
"""Those that are votes for something wrong: where there is a vote, the liar is named."""
CLEVER: Final = ("counting", "predicting")
"""Those that avoid what they take for samples."""


def tampered(lie: str, reader: str, message: Message) -> Message:
    """What a liar sends in the place of a message."""
    return LIES[lie](reader, message) if isinstance(message, Feed) else message


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
