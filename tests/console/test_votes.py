"""Votes of real replicas, one of which lies: who dissented and who was missing is on the page."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from holdfast.console.collector import Collector
from tests.pipeline.process.vote_rig import VoteRig
from tests.transport.parties import wait_for

pytestmark = pytest.mark.usefixtures("no_spark")
LIAR, GONE = "clean/3", "clean/4"


class Board:
    """What the collector knows of the votes of one reader."""

    def __init__(self, collector: Collector, reader: str) -> None:
        self._collector = collector
        self._reader = reader

    def letters(self, replica: str, at: float | None = None) -> str:
        """Of the last buckets, oldest first."""
        found = self._collector.conditions(at).get(self._reader)
        votes = None if found is None else found.ballots.get("clean")
        if votes is None:
            return ""
        row = votes["replicas"].index(replica)
        return "".join(each[1][row] for each in votes["buckets"])


def test_who_dissents_and_who_is_missing(tmp_path: Path) -> None:
    start = int(time.time() * 1e6)
    with VoteRig(tmp_path) as rig:
        rig.open_all((LIAR,))
        with Collector(rig.topology) as collector:
            stage = Board(collector, "sums/1")
            sink = Board(collector, "this console, of clean")
            brought, due = 0, 0.0

            def goes_on_until(board: Board, replica: str, letter: str) -> None:
                """Numbers come until the last votes of a replica are all this; the very last may
                not be settled yet. They come calmly: who lies is waited for by nobody, and falls
                behind when there is no pause."""

                def is_there() -> bool:
                    nonlocal brought, due
                    if board.letters(replica)[-16:-8] == 8 * letter:
                        return True
                    if time.monotonic() >= due:
                        rig.bring(brought, brought + 100, since=start)
                        brought, due = brought + 100, time.monotonic() + 1
                    return False

                wait_for(is_there, 60)

            goes_on_until(stage, LIAR, "d")
            goes_on_until(stage, "clean/1", "a")
            # Nobody can ask the sink that votes on the same stream: we vote ourselves.
            goes_on_until(sink, LIAR, "d")
            rig.close(GONE)
            goes_on_until(stage, GONE, "m")
            for board in (stage, sink):
                wait_for(lambda board=board: "d" in board.letters(LIAR, time.time()), 60)
                assert "d" not in board.letters("clean/1") + board.letters(GONE)
