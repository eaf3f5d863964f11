"""Participants that move load by contracts: the real load managers, under every kind of fault.

A scenario is drawn from a seed, run, and judged: `try_federation(draw_federation(seed))`.
"""

from simulator.federation.drawing import (
    draw_breakdowns,
    draw_cheats,
    draw_dates,
    draw_federation,
    draw_pauses,
    draw_replays,
    draw_steady,
    step_crashes,
)
from simulator.federation.oracle import FederationTrial, try_federation
from simulator.federation.scenario import Participant, Scenario
from simulator.federation.world import FederationWorld

__all__ = [
    "FederationTrial",
    "FederationWorld",
    "Participant",
    "Scenario",
    "draw_breakdowns",
    "draw_cheats",
    "draw_dates",
    "draw_federation",
    "draw_pauses",
    "draw_replays",
    "draw_steady",
    "step_crashes",
    "try_federation",
]
