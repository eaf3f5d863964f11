"""The edge under faults, in virtual time, from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulator.edge.oracle import check
from simulator.edge.scenario import FAMILIES, GUARANTEES, Options, Scenario, draw
from simulator.edge.simulation import Simulation
from simulator.edge.timing import change
from simulator.world import EndlessRunError

__all__ = ["FAMILIES", "GUARANTEES", "Options", "Trial", "draw", "judge", "run"]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a seed; no `problems` if all is right."""

    scenario: Scenario
    simulation: Simulation
    problems: tuple[str, ...]


def run(seed: int, options: Options | None = None) -> Trial:
    """Draw the scenario of a seed, run and judge it."""
    options = options or Options()
    random = Random(f"edge-timing/{options.guarantee}/{options.family}/{seed}")
    return judge(change(random, draw(seed, options)))


def judge(scenario: Scenario) -> Trial:
    """Run and judge a scenario."""
    simulation = Simulation(scenario)
    try:
        simulation.run()
    except EndlessRunError as error:
        return Trial(scenario, simulation, (f"endless: {error}",))
    return Trial(scenario, simulation, tuple(check(simulation)))
