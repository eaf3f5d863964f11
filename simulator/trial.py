"""One seed: drawn, run and judged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from simulator.oracles import check
from simulator.scenario import Options, Scenario, draw_scenario
from simulator.simulation import Note, Simulation
from simulator.world import EndlessRunError


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it; no `problems` if all is right."""

    scenario: Scenario
    run: Simulation
    problems: tuple[str, ...]


def try_seed(
    seed: int, options: Options, *, keep: Collection[int] | None = None, note: Note | None = None
) -> Trial:
    """Run the scenario of a seed, with only these of its faults, by number, if they are given."""
    scenario = draw_scenario(seed, options)
    if keep is not None:
        kept = [fault for number, fault in enumerate(scenario.faults) if number in keep]
        scenario = scenario.with_faults(kept)
    return try_scenario(scenario, note)


def try_scenario(scenario: Scenario, note: Note | None = None) -> Trial:
    run = Simulation(scenario, note)
    try:
        run.run()
    except EndlessRunError as error:
        return Trial(scenario, run, (f"endless: {error}",))
    return Trial(scenario, run, tuple(check(run)))
