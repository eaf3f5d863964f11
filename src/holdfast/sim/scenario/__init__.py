"""Scenarios: all that happens to a simulated system from outside, and how a seed decides it."""

from holdfast.sim.scenario.drawing import draw_scenario
from holdfast.sim.scenario.options import (
    BYZANTINE,
    COMPARING,
    FAMILIES,
    FAULTS,
    FAULTY,
    POLICIES,
    UNRULY,
    Options,
)
from holdfast.sim.scenario.scenario import Reading, Scenario
from holdfast.sim.scenario.times import (
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
