"""Messages as bytes: MessagePack, each an array that begins with its name.

`decode` takes bytes from anybody. It gives a message that could have been sent, or raises WireError
and nothing else. The rows of a chunk are hashed here: one whose digest is wrong is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from holdfast.errors import WireError
from holdfast.pipeline.machine.messages import (
    Again,
    AuthGrant,
    AuthReject,
    AuthRelease,
    AuthRequest,
    Feed,
    Gap,
    Heartbeat,
    LogPiece,
    LogRequest,
    Message,
    PieceRequest,
    Preview,
    Progress,
    Read,
    Recalculate,
    RecDone,
    Stable,
    StateOffer,
    StatePiece,
    StateRequest,
    Subscribe,
    Undo,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Join,
    Ping,
    Pong,
    Snapshot,
    TakeOver,
    View,
)
from holdfast.pipeline.machine.sharing.ownership import Claim
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.chunks import DIGEST_SIZE, Chunk

MAX_MESSAGE = 256 << 20
"""Bytes of a message that is taken, if nobody says otherwise."""
_MANY = 1 << 20
"""Of anything in one message."""
_PIECES = 1 << 24
"""Of a copied state."""

_Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
"""A count, or -1 if there is none."""
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Digest = Annotated[bytes, msgspec.Meta(min_length=DIGEST_SIZE, max_length=DIGEST_SIZE)]


class _Form(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """How something looks on the wire."""


class _Row(_Form):
    stime: _Time
    rows: _Count
    digest: _Digest
    data: bytes


class _Segment(_Form):
    start: _Time
    end: _Time
    rows: Annotated[tuple[_Row, ...], msgspec.Meta(max_length=_MANY)]


class _Stable(_Form, tag="stable"):
    segment: _Segment


class _Preview(_Form, tag="preview"):
    segment: _Segment


class _Undo(_Form, tag="undo"):
    boundary: _Time


class _RecDone(_Form, tag="rec_done"):
    pass


class _Gap(_Form, tag="gap"):
    start: _Time


class _Again(_Form, tag="again"):
    segment: _Segment
    attempt: _Count


_Item = _Stable | _Preview | _Undo | _RecDone | _Gap | _Again


class _Feed(_Form, tag="feed"):
    stream: _Name
    subscription: _Count
    number: _Count
    items: Annotated[tuple[_Item, ...], msgspec.Meta(max_length=_MANY)]


class _Subscribe(_Form, tag="subscribe"):
    stream: _Name
    subscription: _Count
    after: _Time
    shown: _Time
    previews: bool
    standing: bool


class _Unsubscribe(_Form, tag="unsubscribe"):
    stream: _Name
    subscription: _Count


class _Read(_Form, tag="read"):
    stream: _Name
    subscription: _Count
    boundary: _Time


class _Recalculate(_Form, tag="recalculate"):
    stream: _Name
    start: _Time
    attempt: _Count


class _Progress(_Form):
    state: State
    end: _Time
    start: _Time
    subscription: _Number
    sent: _Count
    previewed: _Time


class _Heartbeat(_Form, tag="heartbeat"):
    acks: Annotated[dict[_Name, _Time], msgspec.Meta(max_length=_MANY)]
    sent: _Time
    read: Annotated[dict[_Name, _Time], msgspec.Meta(max_length=_MANY)]


class _Vitals(_Form, tag="vitals"):
    streams: Annotated[dict[_Name, _Progress], msgspec.Meta(max_length=_MANY)]
    sent: _Time


class _AuthRequest(_Form, tag="auth_request"):
    pass


class _AuthGrant(_Form, tag="auth_grant"):
    pass


class _AuthReject(_Form, tag="auth_reject"):
    pass


class _AuthRelease(_Form, tag="auth_release"):
    pass


class _StateRequest(_Form, tag="state_request"):
    since: _Time


class _StateOffer(_Form, tag="state_offer"):
    copy: _Count
    pieces: Annotated[int, msgspec.Meta(ge=-1, le=_PIECES)]
    size: _Count
    bucket: _Time
    consistent_from: _Time
    contents: bytes | None


class _PieceRequest(_Form, tag="piece_request"):
    copy: _Count
    numbers: Annotated[tuple[_Count, ...], msgspec.Meta(max_length=1024)]


class _StatePiece(_Form, tag="state_piece"):
    copy: _Count
    number: _Count
    data: bytes


class _LogRequest(_Form, tag="log_request"):
    stream: _Name
    before: _Time


class _LogPiece(_Form, tag="log_piece"):
    stream: _Name
    before: _Time
    start: _Time
    segments: Annotated[tuple[_Segment, ...], msgspec.Meta(max_length=_MANY)]


class _Claim(_Form):
    epoch: _Number
    replica: _Name
    life: _Count


_Claims = Annotated[tuple[_Claim, ...], msgspec.Meta(max_length=_MANY)]
_Nothing = Annotated[tuple[int, ...], msgspec.Meta(max_length=0)]
"""What replicas that share the work of a stage have no use for: their tuples lie in logs."""


class _View(_Form, tag="view"):
    operator: _Name
    claims: _Claims


class _Ping(_Form, tag="ping"):
    number: _Count
    claims: _Claims


class _Pong(_Form, tag="pong"):
    number: _Count
    claims: _Claims


class _TakeOver(_Form, tag="take_over"):
    failed: _Name
    life: _Count
    claims: _Claims


class _Announce(_Form, tag="announce"):
    number: _Count
    view: _View


class _Announced(_Form, tag="announced"):
    number: _Count


class _Join(_Form, tag="join"):
    life: _Count


class _Snapshot(_Form, tag="snapshot"):
    life: _Count
    views: Annotated[tuple[_View, ...], msgspec.Meta(max_length=_MANY)]
    marks: _Nothing
    pending: _Nothing
    purged: _Nothing


_Message = (
    _Subscribe
    | _Unsubscribe
    | _Read
    | _Recalculate
    | _Feed
    | _Heartbeat
    | _Vitals
    | _AuthRequest
    | _AuthGrant
    | _AuthReject
    | _AuthRelease
    | _StateRequest
    | _StateOffer
    | _PieceRequest
    | _StatePiece
    | _LogRequest
    | _LogPiece
    | _View
    | _Ping
    | _Pong
    | _TakeOver
    | _Announce
    | _Announced
    | _Join
    | _Snapshot
)

_FORMS: dict[type, type[_Form]] = {
    Stable: _Stable,
    Preview: _Preview,
    Undo: _Undo,
    RecDone: _RecDone,
    Gap: _Gap,
    Again: _Again,
    Feed: _Feed,
    Subscribe: _Subscribe,
    Unsubscribe: _Unsubscribe,
    Read: _Read,
    Recalculate: _Recalculate,
    Progress: _Progress,
    Heartbeat: _Heartbeat,
    Vitals: _Vitals,
    AuthRequest: _AuthRequest,
    AuthGrant: _AuthGrant,
    AuthReject: _AuthReject,
    AuthRelease: _AuthRelease,
    StateRequest: _StateRequest,
    StateOffer: _StateOffer,
    PieceRequest: _PieceRequest,
    StatePiece: _StatePiece,
    LogRequest: _LogRequest,
    LogPiece: _LogPiece,
    Claim: _Claim,
    View: _View,
    Ping: _Ping,
    Pong: _Pong,
    TakeOver: _TakeOver,
    Announce: _Announce,
    Announced: _Announced,
    Join: _Join,
    Snapshot: _Snapshot,
}
_MEANINGS: dict[type, type] = {form: meaning for meaning, form in _FORMS.items()}

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Message)


def encode(message: Message) -> bytes:
    """Reads the chunks in it; raises WireError for what cannot be sent."""
    if not isinstance(message, Message):
        raise WireError(f"{type(message).__name__} is no message")
    try:
        return _encoder.encode(_form_of(message))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"{type(message).__name__} cannot be sent: {error}") from error


def decode(data: bytes, max_size: int = MAX_MESSAGE) -> Message:
    """Raises WireError, and nothing else, for anything that `encode` cannot have written."""
    if len(data) > max_size:
        raise WireError(f"a message of {len(data)} bytes is larger than {max_size}")
    try:
        return _meaning_of(_decoder.decode(data))
    # DecodeError is a ValueError; so is text that is no UTF-8. Nested too deeply: RecursionError.
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, MemoryError) as error:
        raise WireError(f"a message cannot be read: {error}"[:300]) from None


def weight(message: Message) -> int:
    """About how many bytes a message has, without reading its chunks."""
    parts: list[int] = []
    segments: list[Segment] = []
    state = 0
    match message:
        case Feed(items=items):
            parts = [len(items)]
            segments = [
                item.segment for item in items if isinstance(item, Stable | Preview | Again)
            ]
        case LogPiece(segments=held):
            segments = list(held)
            parts = [len(segments)]
        case PieceRequest(numbers=numbers):
            parts = [len(numbers)]
        case StateOffer(contents=contents):
            state = len(contents or b"")
        case StatePiece(data=data):
            state = len(data)
        case Heartbeat(acks=acks, read=read):
            parts = [len(acks), len(read)]
        case Vitals(streams=streams):
            parts = [len(streams)]
    values = [row.value for segment in segments for row in segment.rows]
    rows = sum(100 + value.size for value in values if isinstance(value, Chunk))
    return 100 * (1 + sum(parts)) + state + rows


def _form_of(value: Any) -> Any:
    """Anything in a message as it looks on the wire."""
    if isinstance(value, Segment):
        return _Segment(value.start, value.end, tuple(map(_form_of_row, value.rows)))
    if isinstance(value, tuple):
        return tuple(map(_form_of, value))
    if isinstance(value, Mapping):
        return {name: _form_of(held) for name, held in value.items()}
    form = _FORMS.get(type(value))
    if form is None:
        return value
    return form(*(_form_of(getattr(value, field)) for field in form.__struct_fields__))


def _form_of_row(row: Row) -> _Row:
    if row.key is not None or not isinstance(row.value, Chunk):
        raise WireError(f"a row holds {row.value!r}; rows that are sent hold chunks and no key")
    return _Row(row.stime, row.value.rows, row.value.digest, row.value.read())


def _meaning_of(form: Any) -> Any:
    if isinstance(form, _Segment):
        return _segment(form)
    if isinstance(form, tuple):
        return tuple(map(_meaning_of, form))
    if isinstance(form, dict):
        return {name: _meaning_of(held) for name, held in form.items()}
    meaning = _MEANINGS.get(type(form))
    if meaning is None:
        return form
    return meaning(*(_meaning_of(getattr(form, field)) for field in form.__struct_fields__))


def _segment(form: _Segment) -> Segment:
    if form.start > form.end:
        raise WireError("a segment ends before it starts")
    before = form.start
    rows = []
    for row in form.rows:
        if not before <= row.stime < form.end:
            raise WireError("a row is out of order, or outside of its segment")
        before = row.stime
        rows.append(Row(row.stime, None, Chunk.received(row.data, row.rows, row.digest)))
    return Segment(form.start, form.end, tuple(rows))
