"""Messages as frames: a length, a tag and msgpack; arrays of events as in memory.

    u32 length of what follows | u8 tag | body
    body of Events: u32 length of its header | header, msgpack | times, int64[] | values, float64[]
    a message longer than a chunk, as several frames: tag 255 | u8 first (1), last (2) | some of it

All numbers are little-endian. What comes from a socket is trusted in nothing: its size is bounded
before it is kept, and every field is checked for its type. Whatever does not fit is a FrameError,
and whoever carries frames closes the connection it came by.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from holdfast.edge.machine import messages
from holdfast.edge.machine.messages import Events, Message
from holdfast.errors import FrameError

LARGEST_FRAME: Final = 8 << 20
CHUNK: Final = 1 << 20
"""Bytes of a message in one frame; between two of them shorter messages go."""
LARGEST_MESSAGE: Final = 1 << 30
"""Of those that have shown who they are."""
LARGEST_HELLO: Final = 1024
"""Before the other has shown who it is."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question of a person to a node: how it is, which queries there are."""

    number: int
    what: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """To the question of that number; `error` in place of a body."""

    number: int
    body: bytes = b""
    error: str = ""


Carried = Message | Ask | Answer

# The place in this list is the tag: new ones go to the end.
_KINDS: Final = (
    Events,
    messages.Resume,
    messages.Fenced,
    messages.Lost,
    messages.Safe,
    messages.SensorHello,
    messages.SensorWelcome,
    messages.Beat,
    messages.Payload,
    messages.Fetch,
    messages.NodeFailed,
    messages.Election,
    messages.ElectionAck,
    messages.Leader,
    messages.PaneClosed,
    messages.PaneTaken,
    messages.StopSending,
    messages.Register,
    messages.Registered,
    messages.Roster,
    messages.Adopt,
    messages.Adopted,
    Ask,
    Answer,
    messages.Retire,
    messages.RootTime,
    messages.Probe,
    messages.Relayed,
)
_TAGS: Final = {kind: tag for tag, kind in enumerate(_KINDS)}
_PREFIX: Final = struct.Struct("<IB")
_LENGTH: Final = struct.Struct("<I")
_WIDTH: Final = 8
_CHUNK_TAG: Final = 255
_FIRST: Final = 1
_LAST: Final = 2


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    sensor: str
    partition: int
    epoch: int
    first: int
    boundary: int
    count: int
    keys: list[Any] | None
    replayed: bool
    late: int
    newest: int
    rejected: int


def _plain(value: Any) -> Any:
    """What NumPy has put among plain data."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no plain data")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_header_decoder: Final = msgspec.msgpack.Decoder(_Header)
_decoders: Final[dict[int, msgspec.msgpack.Decoder[Any]]] = {
    tag: msgspec.msgpack.Decoder(kind) for tag, kind in enumerate(_KINDS) if kind is not Events
}


def encode(message: Carried, largest: int = LARGEST_MESSAGE) -> bytes:
    """The whole frame. What is queued stays as it is, whatever the sender does to its arrays."""
    if isinstance(message, Events):
        return _encode_events(message)
    body = _encoder.encode(message)
    if len(body) + 1 > largest:
        raise FrameError(
            f"a {type(message).__name__} has {len(body)} bytes, at most {largest} are "
            "sent; let queries have fewer keys, or shorter windows"
        )
    return _PREFIX.pack(len(body) + 1, _TAGS[type(message)]) + body


def _encode_events(events: Events) -> bytes:
    count = len(events.times)
    header = _encoder.encode(
        _Header(
            events.sensor,
            events.partition,
            events.epoch,
            events.first,
            events.boundary,
            count,
            None if events.keys is None else list(events.keys),
            events.replayed,
            events.late,
            events.newest,
            events.rejected,
        )
    )
    length = 1 + _LENGTH.size + len(header) + 2 * _WIDTH * count
    if length > LARGEST_FRAME:
        raise FrameError(f"{count} events are no frame; send fewer at once")
    return b"".join(
        (
            _PREFIX.pack(length, 0),
            _LENGTH.pack(len(header)),
            header,
            np.ascontiguousarray(events.times, "<i8").tobytes(),
            np.ascontiguousarray(events.values, "<f8").tobytes(),
        )
    )


def chunks(data: bytes) -> list[tuple[bytes, memoryview]]:
    """A frame of any length as frames that are short: the beginning of each, and the rest."""
    body = memoryview(data)[_LENGTH.size :]
    starts = range(0, len(body), CHUNK)
    found = []
    for start in starts:
        piece = body[start : start + CHUNK]
        marks = _FIRST * (start == 0) | _LAST * (start == starts[-1])
        found.append((_PREFIX.pack(len(piece) + 2, _CHUNK_TAG) + bytes((marks,)), piece))
    return found


class Assembly:
    """Makes messages of the frames that come by one connection."""

    def __init__(self, largest: int = LARGEST_MESSAGE) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._size = 0

    def take(self, body: bytes) -> bytes | None:
        """A whole message, as `decode` takes it; None if more of it is to come."""
        if body[0] != _CHUNK_TAG:
            return body
        if len(body) < 3 or bool(body[1] & _FIRST) != (not self._pieces):
            raise FrameError("a chunk of no message")
        self._size += len(body) - 2
        if self._size > self._largest:
            raise FrameError(f"a message of more than {self._largest} bytes")
        self._pieces.append(body[2:])
        if not body[1] & _LAST:
            return None
        whole = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return whole


def frame(data: bytes) -> bytes:
    """Bytes of a handshake, before there are messages."""
    return _LENGTH.pack(len(data)) + data


def decode(body: bytes) -> Carried:
    """Of a frame without its length."""
    tag = body[0]
    if tag == 0:
        return _decode_events(body)
    decoder = _decoders.get(tag)
    if decoder is None:
        raise FrameError(f"there is no message {tag}; run the same version everywhere")
    try:
        return decoder.decode(memoryview(body)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise FrameError(f"this is no {_KINDS[tag].__name__}: {error}") from None


def _decode_events(body: bytes) -> Events:
    start = 1 + _LENGTH.size
    if len(body) < start:
        raise FrameError("events without a header")
    stop = start + _LENGTH.unpack_from(body, 1)[0]
    try:
        header = _header_decoder.decode(memoryview(body)[start:stop])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise FrameError(f"this is no header of events: {error}") from None
    count = header.count
    if count < 0 or stop + 2 * _WIDTH * count != len(body) or header.first < 1:
        raise FrameError(f"the frame does not hold {count} events")
    if header.keys is not None and len(header.keys) != count:
        raise FrameError(f"{len(header.keys)} keys for {count} events")
    return Events(
        header.sensor,
        header.partition,
        header.epoch,
        header.first,
        np.frombuffer(body, "<i8", count, stop),
        np.frombuffer(body, "<f8", count, stop + _WIDTH * count),
        header.boundary,
        header.keys,
        header.replayed,
        header.late,
        header.newest,
        header.rejected,
    )


class Frames:
    """Cuts a stream of bytes into frames. `limit` is the longest that is taken."""

    def __init__(self, limit: int = LARGEST_HELLO) -> None:
        self.limit = limit
        self._data = bytearray()
        self._start = 0

    def feed(self, data: bytes | memoryview) -> None:
        self._data += data

    def next(self) -> bytes | None:
        """The next frame without its length, None if it is not all there."""
        here = len(self._data) - self._start
        if here < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data, self._start)
        if not 0 < length <= self.limit:
            raise FrameError(f"a frame of {length} bytes; between 1 and {self.limit} are taken")
        if here < _LENGTH.size + length:
            return None
        begin = self._start + _LENGTH.size
        self._start = begin + length
        # One copy, so that arrays may point into it as long as they like.
        found = bytes(memoryview(self._data)[begin : self._start])
        if self._start == len(self._data):
            self._data.clear()
            self._start = 0
        elif self._start > 1 << 20:
            del self._data[: self._start]
            self._start = 0
        return found
