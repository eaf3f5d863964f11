from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import WireError
from holdfast.verify.process.messages import (
    MAX_BODY,
    MAX_ENVELOPES,
    Back,
    Broken,
    Envelope,
    Envelopes,
    Gone,
    Reported,
    Started,
    Telling,
    decode,
    encode,
    open_envelope,
    seal,
)
from tests.verify.process.charters import SIGNERS, report, told


@pytest.mark.parametrize(
    "telling",
    [
        Reported(report(1)),
        Reported(report(1, seq=4)),
        Started("bill", "host1"),
        Broken("bill", "hourly", 0, 2, 5),
        Gone("bill", 2, 17),
        Gone("bill", 2, 17, "took 4 MiB"),
        Back("bill", 2, 18),
        Back("bill", 2, 18, ("h2", "s1")),
    ],
)
def test_what_is_told_arrives_as_it_was(telling: Telling) -> None:
    envelope = told(1, telling)
    (arrived,) = decode(encode([envelope]), Envelopes)
    assert arrived == envelope
    assert open_envelope(arrived) == telling


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        open_envelope(Envelope(1, data, bytes(64)))


def test_envelopes_have_their_limits() -> None:
    envelope = told(1, report(1))
    for wrong in (
        [envelope] * (MAX_ENVELOPES + 1),
        [Envelope(1, bytes(MAX_BODY + 1), bytes(64))],
        [Envelope(1, b"", bytes(63))],
        [["one", b"", bytes(64)]],
    ):
        with pytest.raises(WireError):
            decode(encode(wrong), Envelopes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digest": b"short"}, "digest"),
        ({"basis": bytes(33)}, "basis"),
        ({"host": ""}, "host"),
        ({"host": "h" * 300}, "host"),
        ({"rows": 2**63}, "rows"),
        ({"path": "/etc/passwd"}, "out of the storage"),
        ({"path": "bill/1/../2/x.arrow"}, "out of the storage"),
        ({"path": ""}, "out of the storage"),
        ({"path": "bill/\0"}, "out of the storage"),
        ({"path": "bill/" + "x" * 1020}, "too long"),
    ],
)
def test_reports_that_nobody_makes_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(WireError, match=message):
        open_envelope(told(1, replace(report(1), **change)))  # type: ignore[arg-type]


def test_nothing_too_long_is_sealed() -> None:
    with pytest.raises(WireError, match="too long"):
        seal(1, Reported(report(1, path="x" * MAX_BODY)), SIGNERS[1])
