"""Replicas that share the work of a stage, and one of them lost.

What the client has must be what one replica would have made of it without any failure.
"""

from __future__ import annotations

import time

from harness.deployment import Deployment
from harness.faults import settle
from harness.waiting import wait_for

__all__ = ["lose_a_share"]

PATIENCE = 180.0


def lose_a_share(deployment: Deployment, victim: str, *, back: bool = False) -> str:
    """Kill one in the middle of its work; `back`: and start it again. Tells who did how much."""
    stage = deployment.stages[0]
    seats = deployment.topology.seats(stage)
    wait_for("each to have its seat", lambda: _have_theirs(deployment), PATIENCE)
    wait_for("all to have a part of the work", lambda: min(_worked(deployment)) > 0, PATIENCE)
    before = _worked(deployment)
    deployment.check()
    deployment.kill(victim)
    killed = int(time.time() * 1e6)
    survivors = [name for name in deployment.topology.publishers(stage) if name != victim]

    def are_taken() -> bool:
        return {seat for name in survivors for seat in deployment.seats(name)} == set(seats)

    wait_for("the dead one's seat to be taken over", are_taken, PATIENCE)
    taken = time.time() - killed / 1e6
    wait_for("final rows from after it", lambda: deployment.boundary > killed, PATIENCE)
    deployment.check()
    if back:
        deployment.start_replica(victim)
        wait_for("each to have its seat again", lambda: _have_theirs(deployment), PATIENCE)
        wait_for("it to work again", lambda: min(_worked(deployment)) > 0, PATIENCE)
        settle(deployment)
    rows = len(deployment.client_rows())
    return f"{victim} killed, taken over after {taken:.1f} s; rows by replica {before}, {rows} seen"


def _have_theirs(deployment: Deployment) -> bool:
    seats = deployment.topology.seats(deployment.stages[0])
    return all(deployment.seats(names[0]) == [seat] for seat, names in seats.items())


def _worked(deployment: Deployment) -> list[int]:
    """How many rows each replica has published."""
    names = deployment.topology.publishers(deployment.stages[0])
    return [(deployment.status(name) or {}).get("stable_rows", 0) for name in names]
