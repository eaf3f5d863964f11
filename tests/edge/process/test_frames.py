"""Messages come out of frames as they went in, and whatever is no frame is refused."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edge.machine.messages import (
    Beat,
    Claim,
    Events,
    PaneClosed,
    PanePartial,
    Payload,
    Resume,
)
from holdfast.edge.process import frames
from holdfast.edge.process.frames import LARGEST_FRAME, Frames, decode, encode
from holdfast.errors import FrameError


def events(count: int = 3, keys: list[str] | None = None) -> Events:
    times = np.arange(count, dtype=np.int64) + 1_000
    return Events("s1", 2, 3, 4, times, times / 7, 5_000, keys, True, 6)


def through(message: object) -> object:
    reader = Frames(LARGEST_FRAME)
    reader.feed(encode(message))  # type: ignore[arg-type]
    data = reader.next()
    assert data is not None
    assert reader.next() is None
    return decode(data)


@pytest.mark.parametrize("keys", [None, ["a", "b", "c"]])
def test_events_keep_every_bit(keys: list[str] | None) -> None:
    sent = events(keys=keys)
    found = through(sent)
    assert isinstance(found, Events)
    assert found.times.tobytes() == sent.times.tobytes()
    assert found.values.tobytes() == sent.values.tobytes()
    assert found.times.dtype == np.int64
    assert (found.sensor, found.partition, found.epoch, found.first) == ("s1", 2, 3, 4)
    assert (found.boundary, found.keys, found.replayed, found.late) == (5_000, keys, True, 6)


def test_without_events_only_the_boundary_moves() -> None:
    found = through(events(0))
    assert isinstance(found, Events)
    assert len(found.times) == 0
    assert found.boundary == 5_000


@pytest.mark.parametrize(
    "message",
    [
        Resume(1, 2, "c1", 3),
        Beat(1, 2, 3, (Claim(1, 2, "c1"),)),
        PaneClosed("g", "q", 0, (PanePartial(1, [1, 2.5, b"x"], 7, 1),), ("c2",)),
    ],
)
def test_messages_come_out_as_they_went_in(message: object) -> None:
    assert through(message) == message


def test_numbers_of_numpy_become_plain_ones() -> None:
    found = through(
        PaneClosed("g", "q", 0, (PanePartial(1, [np.int64(3), np.float64(0.5)], 7, 1),))
    )
    assert isinstance(found, PaneClosed)
    assert found.partials[0].partial == [3, 0.5]


@given(st.integers(1, 60), st.binary(max_size=40))
def test_frames_are_cut_wherever_the_stream_is(size: int, noise: bytes) -> None:
    sent = [Resume(1, 2, "c1", 3), events(5), Beat(1, 2, 3)]
    stream = b"".join(map(encode, sent))
    reader = Frames(LARGEST_FRAME)
    found = []
    for start in range(0, len(stream), size):
        reader.feed(stream[start : start + size])
        while (data := reader.next()) is not None:
            found.append(type(decode(data)))
    assert found == [type(each) for each in sent]


@pytest.mark.parametrize("length", [0, LARGEST_FRAME + 1, 2**32 - 1])
def test_a_frame_that_is_too_long_is_refused_before_it_is_there(length: int) -> None:
    reader = Frames(LARGEST_FRAME)
    reader.feed(struct.pack("<I", length))
    with pytest.raises(FrameError):
        reader.next()


def test_strangers_may_send_little() -> None:
    reader = Frames()
    reader.feed(struct.pack("<I", 10_000))
    with pytest.raises(FrameError):
        reader.next()


@given(st.binary(min_size=1, max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with suppress(FrameError):
        decode(noise)


def test_a_frame_that_was_changed_is_refused_or_still_a_message() -> None:
    whole = bytearray(encode(events(20))[4:])
    for at in range(60):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        with suppress(FrameError):
            decode(bytes(changed))


def test_a_frame_that_was_cut_is_refused() -> None:
    whole = encode(events(20))[4:]
    for stop in (1, 3, 5, 10, len(whole) - 1):
        with pytest.raises(FrameError):
            decode(whole[:stop])
    with pytest.raises(FrameError):
        decode(whole + b"x")


def test_more_events_than_fit_are_not_sent() -> None:
    with pytest.raises(FrameError, match="fewer"):
        encode(events(LARGEST_FRAME // 16 + 1))


def test_every_message_of_the_protocol_has_a_tag() -> None:
    from typing import get_args

    from holdfast.edge.machine.messages import Message

    assert set(get_args(Message)) <= set(frames._KINDS)


@pytest.mark.parametrize(
    "bodies",
    [
        [b"\xff"],
        [b"\xff\x01"],
        [b"\xff\x00x"],
        [b"\xff\x02x"],
        [b"\xff\x01x", b"\xff\x01x"],
        [b"\xff\x01" + b"x" * 600, b"\xff\x00" + b"x" * 600],
    ],
)
def test_chunks_of_no_message_are_refused(bodies: list[bytes]) -> None:
    assembly = frames.Assembly(1_000)
    for body in bodies[:-1]:
        assert assembly.take(body) is None
    with pytest.raises(FrameError):
        assembly.take(bodies[-1])


def test_a_short_message_may_come_between_two_chunks() -> None:
    beat, payload = encode(Beat(1, 2, 3)), encode(Payload(1, 0, 1, (), ()))
    data = bytes(4) + payload[4:] + b"x" * (frames.CHUNK * 2)
    first, second, third = (head[4:] + bytes(rest) for head, rest in frames.chunks(data))
    assembly = frames.Assembly()
    assert assembly.take(first) is None
    assert assembly.take(beat[4:]) == beat[4:]
    assert assembly.take(second) is None
    assert assembly.take(third) == data[4:]
