"""Frames: messages cut into pieces and put together again."""

from __future__ import annotations

import random

import pytest

from holdfast.errors import WireError
from holdfast.transport.links import BEAT, FRAME, Assembly, Hello, frames_of
from tests.transport.samples import mutate


@pytest.mark.parametrize("size", [0, 1, FRAME - 1, FRAME, FRAME + 1, 3 * FRAME])
def test_messages_are_put_together(size: int) -> None:
    assembly = Assembly(4 * FRAME)
    data = random.Random(size).randbytes(size)
    for _ in range(2):
        *parts, last = frames_of(data)
        for part in parts:
            assert assembly.take(part) is None
            assert assembly.take(BEAT) is None
        assert assembly.take(last) == data


def test_no_more_is_kept_than_a_message_may_have() -> None:
    assembly = Assembly(FRAME)
    assembly.take(b"P" + bytes(FRAME))
    with pytest.raises(WireError, match="larger than"):
        assembly.take(b"P1")


@pytest.mark.parametrize("frame", [b"", b"x", b"H", b"L" + bytes(FRAME + 1)])
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(WireError):
        Assembly(FRAME).take(frame)


def test_who_calls() -> None:
    hello = Hello("clean/1", bytes(range(16)), 7)
    assert Hello.parse(hello.frame()) == hello
    rng = random.Random(2)
    for _ in range(2000):
        frame = mutate(rng, hello.frame())
        try:
            parsed = Hello.parse(frame)
        except WireError:
            continue
        assert parsed.party.isprintable()
        assert len(parsed.link) == 16
