"""Four participants with stages on Spark: storms, a partner that comes in, one that is killed."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random

from harness.federation import Federated, Utility
from harness.waiting import wait_for
from holdfast.federation.machine import reconcile

USES_SPARK = True
DESCRIPTION = "stages on Spark that move between four participants as loads go up and down"
LOW, HIGH = 20, 60
"""Rows a second of a stage: two of them together take 40 % or 120 % of a participant."""
PATIENCE = 400.0
UTILITIES = {
    "north": Utility(owns=["n1", "n2"], hosts=["s1"]),
    "south": Utility(owns=["s1"], hosts=["n1", "n2"]),
    "west": Utility(owns=["w1"], hosts=["n1", "n2", "s1"], scale=10.0),
    "east": Utility(hosts=["n1", "n2", "s1"]),
}
"""West reads what n1 makes, and to it anything more is dear. East is not there at first."""


def run(seed: int) -> str:
    """A storm over north that east takes; its end, or, with odd seeds, the death of east."""
    random = Random(seed)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-federation-") as name,
        Federated(
            Path(name), UTILITIES, follows={"w1": "n1"}, patience="20s", max_delay="15s"
        ) as grid,
    ):
        grid.rates = {"n1": LOW, "n2": LOW, "s1": HIGH}
        grid.agree(("north", "south"), ("north", "west"), ("south", "west"))
        grid.start("north", "south", "west")
        wait_for("rows of all stages", grid.has_rows, PATIENCE, 0.5)
        begun = time.monotonic()
        grid.rates |= dict.fromkeys(("n1", "n2"), random.choice([HIGH, 70]))
        wait_for("overload", lambda: grid.status("north")["overloaded"], PATIENCE, 0.5)
        grid.agree(("north", "east"))
        grid.start("east")
        wait_for("relief", lambda: not grid.status("north")["overloaded"], PATIENCE, 0.5)
        (moved,) = grid.status("north")["lent"]
        relief = time.monotonic() - begun
        _wait_for_rows(grid, "n1", "w1", moved)
        if seed % 2:
            grid.kill("east")
            wait_for("it to come home", lambda: grid.runs(moved) == ["north"], PATIENCE, 0.5)
            assert "east" in grid.status("north")["failed"]
        grid.rates |= {"n1": LOW, "n2": LOW}
        wait_for("it to come home", lambda: grid.runs(moved) == ["north"], PATIENCE, 0.5)
        grid.start(*{"east"} - grid.processes.keys())
        _wait_for_rows(grid, "n1", "n2", "s1", "w1")
        both = ("north", "east")
        wait_for("equal ledgers", lambda: not reconcile(*map(grid.ledger, both)), 60)
        grid.check(planned=seed % 2 == 0)
        grid.check_undisturbed("n1", "n2")
    end = "killed" if seed % 2 else "given back"
    return f"{moved} with east after {relief:.0f} s, then {end}; to the byte as undisturbed"


def _wait_for_rows(grid: Federated, *stages: str) -> None:
    """Of what comes from now on."""
    now = time.time() * 1e6
    for stage in stages:
        wait_for(f"rows of {stage}", partial(_has_rows, grid, stage, now), PATIENCE, 0.5)


def _has_rows(grid: Federated, stage: str, since: float) -> bool:
    return grid.boundary(stage) > since
