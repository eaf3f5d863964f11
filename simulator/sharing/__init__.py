"""Replicas that share work, under every kind of fault, in virtual time.

A scenario is drawn from a seed, run, and judged by what its guarantee promises:
`try_sharing(draw_sharing(seed))`.
"""

from simulator.sharing.drawing import draw_beyond, draw_sharing, step_kills
from simulator.sharing.oracle import SharingTrial, try_sharing
from simulator.sharing.scenario import Freeze, Kill, Role, Scenario, StepKill, Weather, When
from simulator.sharing.world import SharingWorld

__all__ = [
    "Freeze",
    "Kill",
    "Role",
    "Scenario",
    "SharingTrial",
    "SharingWorld",
    "StepKill",
    "Weather",
    "When",
    "draw_beyond",
    "draw_sharing",
    "step_kills",
    "try_sharing",
]
