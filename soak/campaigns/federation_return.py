"""Four participants, stages on Spark: one goes to a partner that comes in, and comes back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from harness.federation import Federated, Utility
from harness.waiting import wait_for
from holdfast.federation.machine import reconcile

USES_SPARK = True
DESCRIPTION = "a stage on Spark that goes to a partner at high load, and comes back at low load"
LOW, HIGH = 40, 120
"""Rows a second, where 100 take all of a participant's cpu."""
UTILITIES = {
    "north": Utility(owns=["n1"]),
    "south": Utility(hosts=["n1"], scale=10.0),
    "west": Utility(owns=["w1"], hosts=["n1"], scale=10.0),
    "east": Utility(hosts=["n1"], scale=0.2),
}
"""To south and west anything is dear; east is large, and not there at first."""


def run(seed: int) -> str:
    """No row is lost, doubled or tentative, though west reads what moves: all is to the byte as if
    nothing had been moved."""
    high = Random(seed).randrange(HIGH, 2 * HIGH, 20)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-federation-") as folder,
        Federated(Path(folder), UTILITIES, follows={"w1": "n1"}) as grid,
    ):
        grid.rates = {"n1": LOW}
        grid.agree(("north", "south"), ("north", "west"))
        grid.start("north", "south", "west")
        wait_for("rows of all stages", grid.has_rows, 300, 0.5)
        assert grid.runs("n1") == ["north"]

        grid.rates = {"n1": high}
        wait_for("overload", lambda: grid.status("north")["overloaded"], 120, 0.5)
        wait_for("refusals", lambda: grid.status("north")["counts"].get("received", 0) >= 2, 60)
        assert grid.status("north")["lent"] == {}
        grid.agree(("north", "east"))
        grid.start("east")
        wait_for("the stage to move", lambda: grid.runs("n1") == ["east"], 300, 0.5)
        wait_for("relief", lambda: not grid.status("north")["overloaded"], 60, 0.5)
        assert grid.status("north")["lent"] == {"n1": "east"}

        grid.rates = {"n1": LOW}
        wait_for("it to come back", lambda: grid.runs("n1") == ["north"], 300, 0.5)
        wait_for("east to end it", lambda: not grid.is_answering("n1/4"), 120, 0.5)
        back = grid.boundary("n1")
        wait_for("rows", lambda: grid.boundary("w1") > back + 8_000_000, 120, 0.5)
        both = ("north", "east")
        wait_for("equal ledgers", lambda: not reconcile(*map(grid.ledger, both)), 30)
        assert len(grid.ledger("east")) >= 1
        assert not any(grid.status(name)["failed"] for name in both)
        for giver, left, taker, came in (
            ("north", "n1/1", "east", "n1/4"),
            ("east", "n1/4", "north", "n1/1"),
        ):
            (ready,) = grid.told_at(taker, f"{came} has caught up")
            (ended,) = grid.told_at(giver, f"{left} ends")
            assert ready < ended, f"nobody ran n1 from {ended} to {ready}"
        grid.check()
        grid.check_undisturbed("n1")
    return f"n1 went to east at {high} rows a second, and came back; to the byte as undisturbed"
