"""What load managers send each other, signed, as MessagePack.

Everything names its sender, its receiver and a digest of the contracts between the two as the
sender has them: two files that say different things are found out at the first word. An old
envelope that is sent again is an old message, which the protocol takes for what it is. What is read
here may come from anybody: it is one of the messages, or WireError is raised and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from holdfast.protocol.contracts import Contract, Message
from holdfast.verify.signing import SIGNATURE_SIZE, Signer, is_signed
from holdfast.wire.errors import WireError

__all__ = ["MAX_ENVELOPE", "Letter", "open_letter", "seal", "terms_of"]

MAX_ENVELOPE = 4 << 20
_PURPOSE: Final = "holdfast federation 1"
KINDS: Final[Mapping[str, type[Message]]] = {kind.__name__: kind for kind in Message.__args__}


class _Envelope(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    letter: bytes
    signature: bytes


class _Form(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    purpose: str
    sender: str
    receiver: str
    terms: bytes
    kind: str
    body: msgspec.Raw


class Letter(msgspec.Struct, frozen=True):
    """A message, who says it to whom, and what contracts he thinks there are."""

    sender: str
    receiver: str
    terms: bytes
    message: Message


def terms_of(contracts: Iterable[Contract]) -> bytes:
    """A digest of the contracts between two participants, the same on both sides.

    The rank is one's own business.
    """
    written = sorted(
        (
            each.buyer,
            each.seller,
            each.high,
            each.low,
            each.duration,
            each.units.cpu,
            each.units.bandwidth,
            None if each.kinds is None else sorted(each.kinds),
            each.onward,
        )
        for each in contracts
    )
    return sha256(msgspec.json.encode(written)).digest()


def seal(signer: Signer, letter: Letter) -> bytes:
    form = _Form(
        _PURPOSE,
        letter.sender,
        letter.receiver,
        letter.terms,
        type(letter.message).__name__,
        msgspec.Raw(msgspec.msgpack.encode(letter.message)),
    )
    data = msgspec.msgpack.encode(form)
    return msgspec.msgpack.encode(_Envelope(data, signer.sign(data)))


def open_letter(data: bytes, receiver: str, keys: Mapping[str, bytes]) -> Letter:
    """A letter to the receiver by one whose key is known; else WireError."""
    if len(data) > MAX_ENVELOPE:
        raise WireError(f"envelope: {len(data)} bytes are too many")
    try:
        envelope = msgspec.msgpack.decode(data, type=_Envelope)
        form = msgspec.msgpack.decode(envelope.letter, type=_Form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"envelope: {error}") from None
    public = keys.get(form.sender)
    if public is None:
        raise WireError(f"envelope: {form.sender[:100]!r} is no partner")
    is_right_size = len(envelope.signature) == SIGNATURE_SIZE
    if not is_right_size or not is_signed(public, envelope.letter, envelope.signature):
        raise WireError(f"envelope: not signed by {form.sender}")
    if form.purpose != _PURPOSE or form.receiver != receiver:
        raise WireError(f"envelope: {form.sender} has not sent it to {receiver}")
    kind = KINDS.get(form.kind)
    if kind is None:
        raise WireError(f"envelope: {form.kind[:100]!r} is no message")
    try:
        message = msgspec.msgpack.decode(form.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"envelope: {form.kind}: {error}") from None
    return Letter(form.sender, form.receiver, form.terms, message)
