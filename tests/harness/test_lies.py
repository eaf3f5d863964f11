"""What liars make of what they publish."""

from __future__ import annotations

import pyarrow as pa
import pytest

from harness.lies import CLEVER, EVERY, LIES, tampered
from holdfast.pipeline.machine.messages import Feed, Gap, Heartbeat, Stable
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.chunks import Chunk, has_digest

CHUNK = Chunk.of(pa.table({"sensor": ["a", "b"], "value": [1, 2]}))
FEED = Feed("s", 3, 4, (Gap(5), Stable(Segment(10, 20, (Row(10, None, CHUNK),)))))


def told(lie: str, reader: str = "r") -> list[Segment]:
    feed = tampered(lie, reader, FEED)
    assert isinstance(feed, Feed)
    assert (feed.stream, feed.subscription, feed.number) == ("s", 3, 4)
    return [item.segment for item in feed.items if isinstance(item, Stable)]


@pytest.mark.parametrize(
    ("lie", "rows"),
    [
        ("wrong-value", [("a", 2), ("b", 3)]),
        ("wrong-count", [("a", 1), ("b", 2), ("a", 1)]),
        ("right-hash", [("a", 2), ("b", 3)]),
    ],
)
def test_what_rows_become(lie: str, rows: list[tuple[str, int]]) -> None:
    [segment] = told(lie)
    [row] = segment.rows
    assert [tuple(each.values()) for each in row.value.table().to_pylist()] == rows
    assert has_digest(row.value.read(), row.value.digest) is (lie != "right-hash")
    assert (row.value.digest == CHUNK.digest) is (lie == "right-hash")


def test_each_reader_is_told_something_else() -> None:
    assert told("other-to-each", "x") != told("other-to-each", "y")
    assert told("other-to-each", "x") == told("other-to-each", "x")


def test_buckets_that_are_not_yet() -> None:
    forged, honest = told("far-ahead")
    assert honest.rows == FEED.items[1].segment.rows  # type: ignore[union-attr]
    assert forged.start > 10**6


@pytest.mark.parametrize("lie", CLEVER)
def test_some_avoid_what_they_take_for_samples(lie: str) -> None:
    feeds = [
        Feed("s", 3, number, (Stable(Segment(start, start + 10, (Row(start, None, CHUNK),))),))
        for number, start in enumerate(range(0, 3000, 10))
    ]
    made = [tampered(lie, "r", feed) for feed in feeds]
    honest = [number for number, feed in enumerate(feeds) if made[number] == feed]
    assert 0.5 < len(honest) / (len(feeds) / EVERY) < 1.5
    assert (honest == list(range(0, len(feeds), EVERY))) is (lie == "counting")


def test_other_columns_have_a_digest_of_their_own() -> None:
    [segment] = told("other-columns")
    chunk = segment.rows[0].value
    assert chunk.table().column_names == ["sensor", "value", "more"]
    assert has_digest(chunk.read(), chunk.digest)


def test_messages_are_emptied_repeated_and_put_in_another_place() -> None:
    feeds = [Feed("s", 3, number, FEED.items) for number in range(4)]

    def sent(lie: str) -> list[tuple[int, int]]:
        made = [tampered(lie, "r", feed) for feed in feeds]
        return [(feed.number, len(feed.items)) for feed in made if isinstance(feed, Feed)]

    assert sent("omitting") == [(0, 2), (1, 2), (2, 0), (3, 2)]
    assert sent("repeating") == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert sent("disordering") == [(1, 2), (0, 2), (3, 2), (2, 2)]


@pytest.mark.parametrize("lie", LIES)
def test_other_messages_are_left(lie: str) -> None:
    assert tampered(lie, "r", Heartbeat({})) == Heartbeat({})
