"""Scenarios: all that happens to a simulated system from outside, and how a seed decides it."""

from simulator.scenario.drawing import draw_scenario
from simulator.scenario.options import (
    BYZANTINE,
    COMPARING,
    FAMILIES,
    FAULTS,
    FAULTY,
    POLICIES,
    UNRULY,
    Options,
)
from simulator.scenario.scenario import Reading, Scenario
from simulator.scenario.times import (
    END,
    HEADROOM,
    HEARTBEAT,
    LOOK,
    MISSED,
    PATIENCE,
    SIZE,
    TWIN_PATIENCE,
    TWIN_PERIOD,
)

__all__ = [
    "BYZANTINE",
    "COMPARING",
    "END",
    "FAMILIES",
    "FAULTS",
    "FAULTY",
    "HEADROOM",
    "HEARTBEAT",
    "LOOK",
    "MISSED",
    "PATIENCE",
    "POLICIES",
    "SIZE",
    "TWIN_PATIENCE",
    "TWIN_PERIOD",
    "UNRULY",
    "Options",
    "Reading",
    "Scenario",
    "draw_scenario",
]
