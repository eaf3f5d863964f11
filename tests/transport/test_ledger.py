"""What is counted, and what of it is logged."""

from __future__ import annotations

import pytest

from holdfast.transport.front import Ledger


def test_a_flood_of_calls_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger("here")
    for number in range(1000):
        ledger.refuse("token", "it is wrong")
        ledger.refuse("action", f"{number} is none")
    ledger.refuse("link", "there are too many")
    assert ledger.refused == {"token": 1000, "action": 1000, "link": 1}
    assert caplog.messages.count("here: refused token: it is wrong") == 1
    assert caplog.messages[-1] == "here: refused link: there are too many"
    assert len(caplog.messages) < 70


def test_the_next_line_says_how_many_were_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter((100.0, 101.0, 109.0, 111.0))
    monkeypatch.setattr("holdfast.transport.front.time.monotonic", lambda: next(times))
    ledger = Ledger("here")
    for _ in range(4):
        ledger.refuse("token", "it is wrong")
    assert caplog.messages == [
        "here: refused token: it is wrong",
        "here: refused token: it is wrong (and 2 more since the last line)",
    ]
