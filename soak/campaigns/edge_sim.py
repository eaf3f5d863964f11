"""The edge in the simulator: every guarantee and every family of faults, seed after seed."""

from __future__ import annotations

from simulator.edge import FAMILIES, GUARANTEES, Options
from simulator.edge import run as run_edge

DESCRIPTION = "replicated partial aggregates at the edge under simulated faults of every family"


def run(seed: int) -> str:
    """The scenarios of one seed; raises on the first that is not right."""
    runs = windows = incomplete = 0
    for guarantee in GUARANTEES:
        for family in FAMILIES:
            trial = run_edge(seed, Options(guarantee, family))
            if trial.problems:
                raise AssertionError(
                    f"simulator.edge.run({seed}, Options({guarantee!r}, {family!r})): "
                    f"{trial.problems[0]}"
                )
            runs += 1
            windows += len(trial.simulation.windows)
            incomplete += sum(not window.complete for _, window in trial.simulation.windows)
    return f"{runs} scenarios, {windows} windows, {incomplete} of them incomplete and said so"
