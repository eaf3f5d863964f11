"""Messages as bytes: what is sent arrives; anything else is refused in one way."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import WireError
from holdfast.pipeline.machine.messages import (
    Feed,
    Heartbeat,
    Message,
    Stable,
    StatePiece,
    Subscribe,
)
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.chunks import Chunk
from holdfast.transport import codec
from holdfast.transport.codec import decode, encode, weight
from tests.transport.samples import draw_message, mutate, readings

CHUNK = Chunk.of(readings(3))


@given(st.integers(0, 2**32))
def test_what_is_sent_arrives(seed: int) -> None:
    message = draw_message(random.Random(seed))
    assert decode(encode(message)) == message


def test_every_message_has_a_form() -> None:
    rng = random.Random(0)
    drawn = {type(draw_message(rng)) for _ in range(500)}
    assert drawn == set(Message.__args__)


def test_the_rows_arrive() -> None:
    message = Feed("s", 1, 0, (Stable(Segment(0, 10, (Row(0, None, CHUNK),))),))
    arrived = decode(encode(message))
    assert isinstance(arrived, Feed)
    assert arrived.items[0].segment.rows[0].value.table().equals(readings(3))  # type: ignore[union-attr]


@pytest.mark.parametrize("block", range(8))
def test_tampered_messages_are_read_or_refused(block: int) -> None:
    rng = random.Random(block)
    for _ in range(500):
        data = mutate(rng, encode(draw_message(rng)))
        try:
            message = decode(data)
        except WireError:
            continue
        assert decode(encode(message)) == message


def raw(*parts: Any) -> bytes:
    return msgspec.msgpack.encode(parts)


def row(**changes: Any) -> list[Any]:
    fields = {"stime": 0, "rows": 3, "digest": CHUNK.digest, "data": CHUNK.read()}
    return list((fields | changes).values())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        raw(),
        raw("nonsense"),
        raw("subscribe", "s", 1, 0, 0),
        raw("subscribe", "s", 1, 0, 0, True, 1),
        raw("subscribe", "s", 1, 0, 0, 1),
        raw("subscribe", "s", True, 0, 0, True),
        raw("subscribe", "s", -1, 0, 0, True),
        raw("subscribe", "s", 2**63, 0, 0, True),
        raw("subscribe", "s", 1, 2**64 - 1, 0, True),
        raw("subscribe", "s", 1.0, 0, 0, True),
        raw("subscribe", "", 1, 0, 0, True),
        raw("subscribe", "s" * 256, 1, 0, 0, True),
        raw("subscribe", b"s", 1, 0, 0, True),
        raw("heartbeat", {1: 2}, 0),
        raw("vitals", {"s": [9, 0, 0, -1, 0, 0]}, 0),
        raw("vitals", {"s": [0, 0, 0, -2, 0, 0]}, 0),
        raw("feed", "s", 1, 0, [["stable", [10, 0, []]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(stime=10)]]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(stime=5), row()]]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(rows=2)]]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(digest=bytes(32))]]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(digest=b"short")]]]]),
        raw("feed", "s", 1, 0, [["stable", [0, 10, [row(data=b"")]]]]),
        raw("feed", "s", 1, 0, [["feed", "s", 1, 0, []]]),
        raw("state_reply", 1, 0, 0, None, {}),
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\x92\xabunsubscribe\xdb\xff\xff\xff\xff",
        b"\x93\xabunsubscribe\xa2\xff\xfe\x01",
        encode(Subscribe("s", 1, 0, 0)) + b"\0",
    ],
)
def test_what_cannot_have_been_sent_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


def test_a_good_row_is_taken() -> None:
    assert decode(raw("feed", "s", 1, 0, [["stable", [0, 10, [row()]]]]))


def test_what_is_too_large_is_refused() -> None:
    data = encode(StatePiece(1, 0, bytes(1000)))
    with pytest.raises(WireError, match="larger than 1000"):
        decode(data, 1000)


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat({"s": 2**70}),
        Feed("s", 1, 0, (Stable(Segment(0, 1, (Row(0, "key", CHUNK),))),)),
        Feed("s", 1, 0, (Stable(Segment(0, 1, (Row(0, None, 5),))),)),
        "hello",
        StatePiece(1, 0, object()),
    ],
)
def test_what_cannot_be_sent_is_refused(message: Any) -> None:
    with pytest.raises(WireError):
        encode(message)


def test_weight_is_about_the_size() -> None:
    rng = random.Random(3)
    for _ in range(200):
        message = draw_message(rng)
        assert abs(weight(message) - len(encode(message))) < 3000


def test_nothing_of_a_message_is_left_out() -> None:
    for meaning, form in codec._FORMS.items():
        # A claim is a named tuple, all else are dataclasses.
        named = getattr(meaning, "_fields", None) or tuple(each.name for each in fields(meaning))
        assert form.__struct_fields__ == named
