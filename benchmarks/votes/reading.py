"""The work of a reader: bytes of several replicas in, rows of one stream out.

All that a real reader does but for the network and Spark: it decodes messages, calculates the
digest of the rows in them, and lets its gate decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from holdfast.pipeline.machine.messages import Feed, Item, Send, Stable, Subscribe, Unsubscribe
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import Intake, SwitchIntake
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.machine.vote_subscription import Comparison
from holdfast.storage.chunks import Chunk
from holdfast.transport.codec import decode, encode

__all__ = ["REPLICAS", "Stream", "read", "record"]

SIZE: Final = 1_000_000
REPLICAS: Final = ("clean/1", "clean/2", "clean/3", "clean/4")
READER: Final = "sums/1"
STREAM: Final = "clean"

Stream = Mapping[tuple[str, int], bytes]
"""The bucket of a replica, as it comes over the wire; the subscription is that of `read`."""


def record(buckets: int, rows: int) -> Stream:
    """What four honest replicas publish: a sensor, a time and a value in each row."""
    random = np.random.default_rng(7)
    found: dict[tuple[str, int], bytes] = {}
    for bucket in range(buckets):
        start = bucket * SIZE
        times = pa.array(start + np.sort(random.integers(0, SIZE, rows)), pa.int64())
        table = pa.table(
            {
                "stime": times.cast(pa.timestamp("us", "UTC")),
                "sensor": pa.array([f"sensor-{each}" for each in random.integers(0, 99, rows)]),
                "value": pa.array(random.normal(size=rows)),
            }
        )
        segment = Segment(start, start + SIZE, (Row(start, None, Chunk.of(table)),))
        for name in REPLICAS:
            found[name, bucket] = encode(Feed(STREAM, 0, 0, (Stable(segment),)))
    return found


def _intake(policy: str) -> Intake:
    if policy == "switch":
        return SwitchIntake(STREAM, REPLICAS, grace=SIZE)
    return Comparison(policy).intake(STREAM, REPLICAS, size=SIZE, grace=SIZE, secret=b"benchmark")


def read(stream: Stream, policy: str) -> int:
    """Read it all, from all replicas that are asked, at the same pace. The rows that came through.

    Each replica's log is a `Line`; what it sends is the recorded bytes."""
    intake = _intake(policy)
    lines = {name: Line(STREAM, (READER,)) for name in REPLICAS}
    buckets = 1 + max(bucket for _, bucket in stream)
    states = dict.fromkeys(REPLICAS, State.STABLE)
    rows = 0

    def deliver(sends: list[Send]) -> None:
        nonlocal rows
        waiting = list(sends)
        while waiting:
            send = waiting.pop(0)
            match send.message:
                case Subscribe() if send.to in lines:
                    feeds = lines[send.to].subscribe(READER, send.message)
                    waiting += [Send(f"from {send.to}", each.message) for each in feeds]
                case Unsubscribe() if send.to in lines:
                    lines[send.to].unsubscribe(READER, send.message)
                case Feed():
                    replica = send.to.removeprefix("from ")
                    news, more = intake.take(replica, _received(replica, send.message), 0)
                    rows += sum(
                        row.value.rows
                        for item in news
                        if isinstance(item, Stable)
                        for row in item.segment.rows
                    )
                    waiting += more

    def _received(replica: str, feed: Feed) -> Feed:
        """What the reader makes of the bytes that stand for the empty segments of the line."""
        items: list[Item] = []
        for item in feed.items:
            if isinstance(item, Stable):
                coded = decode(stream[replica, item.segment.start // SIZE])
                assert isinstance(coded, Feed)
                items += coded.items
            else:
                items.append(item)
        return Feed(feed.stream, feed.subscription, feed.number, tuple(items))

    for bucket in range(buckets):
        for name, line in lines.items():
            feeds = line.publish(Segment(bucket * SIZE, (bucket + 1) * SIZE, ()))
            feeds += line.confirm(READER, intake.place_of(name))
            deliver([Send(f"from {name}", each.message) for each in feeds])
        deliver(intake.read_on(states, {}, 0))
    return rows
