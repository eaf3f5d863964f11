from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import StoreCorruptError, WireError
from holdfast.federation.machine import Contract, Letter, Load, LoanId, Task
from holdfast.federation.machine.messages import Beat, Bound, Cancel, Offer, Ship, Shipment
from holdfast.federation.machine.records import Borrowed, Owned, Promised
from holdfast.federation.process.envelopes import KINDS, Opened, open_letter, seal, terms_of
from holdfast.federation.process.records import KINDS as RECORDS
from holdfast.federation.process.records import Written, open_journal, pack, unpack
from holdfast.storage.signing import Signer

NORTH, SOUTH = Signer.make(), Signer.make()
KEYS = {"north": NORTH.public}
LOAN = LoanId("north", 3, "clean")
TASK = Task("clean", Load(0.1, 0.2), "public")


def letter(message) -> Letter:
    return Letter((3, 7), (2, 9), Bound((3, 4), (3, 3)), message)


def sealed(signer: Signer, message) -> bytes:
    return seal(signer, "north", "south", b"terms", letter(message))


@pytest.mark.parametrize(
    "message",
    [
        Offer(1, 2.5, (TASK,), 1000),
        Ship(3, 2.5, (Shipment("clean", (1, 2)),)),
        Cancel(LOAN, 2, 7),
        Beat(),
    ],
)
def test_a_letter_arrives_as_it_was_sent(message) -> None:
    opened = open_letter(sealed(NORTH, message), "south", KEYS)
    assert opened == Opened("north", "south", b"terms", letter(message))


def test_nobody_signs_for_another() -> None:
    with pytest.raises(WireError, match="not signed by north"):
        open_letter(sealed(SOUTH, Beat()), "south", KEYS)
    with pytest.raises(WireError, match="is no partner"):
        open_letter(sealed(NORTH, Beat()), "south", {})
    with pytest.raises(WireError, match="has not sent it to west"):
        open_letter(sealed(NORTH, Beat()), "west", KEYS)


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        open_letter(data, "south", KEYS)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_noticed(at: int, change: int) -> None:
    data = bytearray(sealed(NORTH, Offer(1, 2.5, (TASK,), 1000)))
    data[at % len(data)] ^= change
    with pytest.raises(WireError):
        open_letter(bytes(data), "south", KEYS)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Offer", [1]),
        (
            "Offer",
            {"number": 1, "price": 1.0, "tasks": [{"id": "x", "load": {"cpu": -1}}], "hold": 1},
        ),
        ("Manager", {}),
        ("Cancel", {"loan": ["north"], "periods": 1, "served": 1}),
        ("Cancel", {"loan": ["north", 1, "x"], "periods": 1, "served": (1 << 64) - 1}),
        ("Renew", {"loan": ["north", 1, "x"], "period": 1, "units": float("inf")}),
    ],
)
def test_a_signed_message_that_is_none_is_refused(kind: str, body: object) -> None:
    marks = [(1, 1), (0, 0), ((0, 0), (0, 0))]
    form = ["holdfast federation 2", "north", "south", b"", *marks, kind, body]
    data = msgspec.msgpack.encode(form)
    with pytest.raises(WireError):
        open_letter(msgspec.msgpack.encode([data, NORTH.sign(data)]), "south", KEYS)


def test_terms_are_the_same_on_both_sides_and_change_with_every_clause() -> None:
    there, back = Contract("north", "south", 4, 3), Contract("south", "north", 2, 2)
    terms = terms_of([there, back])
    assert terms_of([back, replace(there, rank=3)]) == terms
    for other in (
        replace(there, high=5),
        replace(there, low=4),
        replace(there, duration=1),
        replace(there, onward=False),
        replace(there, kinds=frozenset({"public"})),
    ):
        assert terms_of([other, back]) != terms
    assert terms_of([there]) != terms


def test_there_is_a_form_for_every_message_and_record() -> None:
    assert len(KINDS) == 21
    assert len(RECORDS) == 27


def test_a_journal_gives_back_its_records(tmp_path: Path) -> None:
    records = [
        Owned(TASK),
        Promised("south", 4, 2.5, (TASK,), 9),
        Borrowed(LOAN, TASK, (1, 2), 2.5, 0.1, None, True),
    ]
    with open_journal(tmp_path) as journal:
        journal.append([pack(each) for each in records])
    with open_journal(tmp_path) as journal:
        assert unpack(journal.found) == records
        with pytest.raises(StoreCorruptError, match="entry 1"):
            unpack([Written("Unheard", b"")])
