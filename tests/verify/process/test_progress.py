"""The coordinator's journal as a state machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.verify.machine import Run
from holdfast.verify.process.progress import (
    AgreedUpon,
    Began,
    Delivering,
    Dissented,
    Ended,
    Failed,
    Log,
    Moved,
    Noted,
    Progress,
    Started,
    Submitted,
    Ticked,
    VerifierStarted,
    Writing,
    Written,
)

LIFE: list[Noted] = [
    Submitted("bill-1", 7, {"Holdfast": "1"}),
    Began(),
    Started(1.0, 1, "north"),
    Started(1.0, 2, "south"),
    Ended(4.0, 2, -9),
    Failed(5.0, 2, is_lost=False),
    Moved(5.0, 2, "spare"),
    VerifierStarted(5.5, 1),
    Started(6.0, 2, "spare"),
    AgreedUpon(7.0, "hourly", b"x"),
    Dissented(7.5, "total", Run(0, 1), 1),
    Writing(7.6, "most"),
    Writing(7.7, "least"),
    Written(7.8, "least", "warehouse/least"),
    Delivering(8.0, 12, 1, 2, 3),
    Ticked(10.0),
]


def progress(*events: Noted) -> Progress:
    made = Progress()
    for event in events:
        made.apply(event)
    return made


def test_one_life() -> None:
    known = progress(*LIFE)
    assert known.lives == 1
    assert known.replica(1).pools == ["north"]
    assert known.replica(2).pools == ["south", "spare"]
    assert known.replica(2).failures == 1
    assert known.verifier_starts == 1
    assert known.agreed == {"hourly": b"x"}
    assert known.writes == {"most": False, "least": True}
    assert known.written == {"least": "warehouse/least"}
    assert known.dissents == {("total", Run(0, 1), 1)}
    assert known.ran(1) == 9.0
    assert known.ran(2) == 3.0 + 4.0


def test_who_ran_when_it_was_killed_ran_until_it_was_heard_of_last() -> None:
    known = progress(*LIFE, Began(), Started(1.0, 1, "north"), Ticked(3.0))
    assert known.lives == 2
    assert known.seconds == 10.0
    assert known.ran(1) == 9.0 + 2.0
    assert known.ran(2) == 7.0, "it was not started again"


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([Ended(2.0, 1, -9)], -9),
        ([Ended(2.0, 1, -9), Failed(3.0, 1, is_lost=False)], None),
        ([Ended(2.0, 1, -9), Failed(3.0, 1, is_lost=False), Started(4.0, 1, "north")], None),
    ],
)
def test_verifiers_are_told_of_an_end_that_they_may_not_know(
    events: list[Noted], code: int | None
) -> None:
    assert progress(Began(), Started(1.0, 1, "north"), *events).replica(1).code == code


def test_a_move_counts_before_anything_is_started_there() -> None:
    known = progress(Began(), Started(1.0, 1, "north"), Moved(2.0, 1, "spare"), Began())
    assert known.replica(1).pool == "spare"
    assert known.replica(1).pools == ["north"]
    assert known.ran(1) == 1.0


def test_who_is_lost_stays_lost() -> None:
    assert progress(*LIFE, Failed(11.0, 2, is_lost=True), Began()).replica(2).is_lost


@pytest.mark.parametrize("length", range(len(LIFE) + 1))
def test_a_journal_gives_back_what_was_noted(length: int, tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        for event in LIFE[:length]:
            log.note(event)
    with Log(tmp_path) as log:
        assert log.progress == progress(*LIFE[:length])
        with pytest.raises(StoreUnavailableError, match="another process has it"):
            Log(tmp_path)
