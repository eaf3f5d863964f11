"""What travels on a link: messages cut into frames, so that a large one is not taken for silence.

A frame is one byte that says what it is, and its content. Every frame that arrives, in whole, shows
that the other side lives; a BEAT is sent when there is nothing else to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

import msgspec

from holdfast.wire.errors import WireError

__all__ = ["BEAT", "FRAME", "LINK", "Assembly", "Hello", "Message", "frames_of"]

Message: TypeAlias = Any
"""What the codec of a link makes of its bytes."""

LINK = b"holdfast link"
"""The command by which a DoExchange is a link."""
FRAME = 256 << 10
"""Bytes of content in one frame at most."""

_PART, _LAST, _BEAT, _HELLO = b"PLBH"
BEAT = bytes([_BEAT])

_Id = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Hello(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first frame of a link: who calls, with which of its links, and how often before."""

    party: _Name
    link: _Id
    attempt: _Count

    def frame(self) -> bytes:
        return bytes([_HELLO]) + msgspec.msgpack.encode(self)

    @classmethod
    def parse(cls, frame: bytes) -> Hello:
        if not frame or frame[0] != _HELLO or len(frame) > FRAME:
            raise WireError("a link does not begin with who calls")
        try:
            hello = msgspec.msgpack.decode(frame[1:], type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise WireError("a link does not say properly who calls") from None
        if not hello.party.isprintable():
            raise WireError("a link is called from a party with an unprintable name")
        return hello


def frames_of(data: bytes) -> Iterator[bytes]:
    """A message as frames."""
    view = memoryview(data)
    for start in range(0, max(len(view), 1), FRAME):
        kind = _LAST if start + FRAME >= len(view) else _PART
        yield bytes([kind]) + view[start : start + FRAME]


class Assembly:
    """Puts the frames of a link together again."""

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, frame: bytes) -> bytes | None:
        """The message that this frame completes, if any. Raises WireError if it cannot belong to
        a link; there is no going on after that."""
        if not frame or frame[0] not in (_PART, _LAST, _BEAT) or len(frame) > FRAME + 1:
            raise WireError("a link carries something that is no frame")
        if frame[0] == _BEAT:
            return None
        self._size += len(frame) - 1
        if self._size > self._max_message:
            raise WireError(f"a message is larger than {self._max_message} bytes")
        self._parts.append(frame[1:])
        if frame[0] == _PART:
            return None
        whole = b"".join(self._parts)
        self._parts, self._size = [], 0
        return whole
