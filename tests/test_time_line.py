from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from holdfast.pictures import save_picture
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind
from holdfast.time_line import Piece, Span, TimeLine, Trouble, draw_time_line

SECOND = 1_000_000


def broken() -> TimeLine:
    """A cut of three seconds."""
    shown = [
        Piece(2 * SECOND, Kind.INSERT, SECOND),
        Piece(5 * SECOND, Kind.TENTATIVE, 2 * SECOND),
        Piece(5 * SECOND, Kind.TENTATIVE, 4 * SECOND),
        Piece(7 * SECOND, Kind.UNDO, SECOND),
        Piece(7 * SECOND, Kind.INSERT, 3 * SECOND),
        Piece(7 * SECOND, Kind.INSERT, 5 * SECOND),
        Piece(7 * SECOND, Kind.REC_DONE, 5 * SECOND),
    ]
    return TimeLine(
        title="a cut",
        until=9 * SECOND,
        troubles=[Trouble("cut: a ↔ b", 3 * SECOND, 6 * SECOND)],
        stream="sums",
        shown=shown,
        gaps=[],
        max_delay=3 * SECOND,
        states={
            "b/1": [Span(0, 4 * SECOND, State.STABLE), Span(4 * SECOND, 9 * SECOND, State.FAILURE)]
        },
    )


def texts(line: TimeLine, path: Path) -> str:
    saved = save_picture(draw_time_line(line), path)
    return " ".join(" ".join(ElementTree.parse(saved).getroot().itertext()).split())


def test_a_delay_is_that_of_what_is_first_shown() -> None:
    delays = [(piece.boundary, delay) for piece, delay in broken().delays()]
    assert delays == [
        (SECOND, SECOND),
        (2 * SECOND, 3 * SECOND),
        (4 * SECOND, SECOND),
        (5 * SECOND, 2 * SECOND),
    ]


def test_all_that_happened_is_drawn(tmp_path: Path) -> None:
    words = texts(broken(), tmp_path / "line.svg")
    for text in (
        "a cut",
        "cut: a ↔ b",
        "how far the client of sums has been shown the stream",
        "stable: final",
        "tentative: a preview",
        "UNDO: previews are withdrawn",
        "REC_DONE: all is corrected",
        "max_delay: ",
        "b/1",
    ):
        assert text in words


def test_what_did_not_happen_is_not_drawn(tmp_path: Path) -> None:
    calm = replace(broken(), troubles=[], shown=broken().shown[:1], max_delay=math.inf)
    words = texts(calm, tmp_path / "line.svg")
    assert "nothing" in words
    for text in ("tentative", "UNDO", "REC_DONE", "max_delay"):
        assert text not in words


def test_what_is_given_up_is_hatched(tmp_path: Path) -> None:
    words = texts(replace(broken(), gaps=[(SECOND, 2 * SECOND)]), tmp_path / "line.svg")
    assert "given up: never final" in words
