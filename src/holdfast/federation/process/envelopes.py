"""Signed letters between load managers, as MessagePack.

Everything names its sender, its receiver and a digest of the contracts between the two as the
sender has them: two files that say different things are found out at the first word. It is
numbered, so an old envelope that is sent again is found out by the protocol. What is read here may
come from anybody: it is one of the messages, or WireError is raised and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from holdfast.errors import WireError
from holdfast.federation.machine import Contract, Letter, Message
from holdfast.federation.machine.messages import Bound, Mark, is_sound
from holdfast.storage.signing import SIGNATURE_SIZE, Signer, is_signed

MAX_ENVELOPE = 4 << 20
_PURPOSE: Final = "holdfast federation 2"
KINDS: Final[Mapping[str, type[Message]]] = {kind.__name__: kind for kind in Message.__args__}


class _Envelope(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    letter: bytes
    signature: bytes


class _Form(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    purpose: str
    sender: str
    receiver: str
    terms: bytes
    mark: Mark
    heard: Mark
    bound: tuple[Mark, Mark]
    kind: str
    body: msgspec.Raw


class Opened(msgspec.Struct, frozen=True):
    """A letter, who has signed it for whom, and what contracts the sender thinks there are."""

    sender: str
    receiver: str
    terms: bytes
    letter: Letter


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


def seal(signer: Signer, sender: str, receiver: str, terms: bytes, letter: Letter) -> bytes:
    form = _Form(
        _PURPOSE,
        sender,
        receiver,
        terms,
        letter.mark,
        letter.heard,
        (letter.bound.mark, letter.bound.before),
        type(letter.message).__name__,
        msgspec.Raw(msgspec.msgpack.encode(letter.message)),
    )
    data = msgspec.msgpack.encode(form)
    return msgspec.msgpack.encode(_Envelope(data, signer.sign(data)))


def open_letter(data: bytes, receiver: str, keys: Mapping[str, bytes]) -> Opened:
    """A letter to the receiver by one whose key is known; else WireError."""
    opened = open_any(data, keys)
    if opened.receiver != receiver:
        raise WireError(f"envelope: {opened.sender} has not sent it to {receiver}")
    return opened


def open_any(data: bytes, keys: Mapping[str, bytes]) -> Opened:
    """A letter to anybody by one whose key is known; else WireError."""
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
    if form.purpose != _PURPOSE:
        raise WireError(f"envelope: {form.sender} has not signed it as a letter")
    kind = KINDS.get(form.kind)
    if kind is None:
        raise WireError(f"envelope: {form.kind[:100]!r} is no message")
    try:
        message = msgspec.msgpack.decode(form.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WireError(f"envelope: {form.kind}: {error}") from None
    if not is_sound(message):
        raise WireError(f"envelope: {form.kind}: has a number that is beyond all bounds")
    letter = Letter(form.mark, form.heard, Bound(*form.bound), message)
    return Opened(form.sender, form.receiver, form.terms, letter)
