"""Replicated stages in the simulator: every policy and every family of faults, seed after seed.

`python -m simulator` runs one policy at a time, on all cores; this goes through all of them.
"""

from __future__ import annotations

from holdfast.pipeline.machine.tuples import Kind
from simulator.scenario import FAMILIES, Options
from simulator.trial import try_seed

DESCRIPTION = "replicated stages of every gate policy under simulated faults of every family"


def run(seed: int) -> str:
    """The scenarios of one seed; raises on the first that is not right."""
    runs = previews = 0
    for policy, faults in FAMILIES:
        trial = try_seed(seed, Options(policy=policy, faults=faults))
        if trial.problems:
            raise AssertionError(
                f"python -m simulator --seed {seed} --policy {policy} --topology any "
                f"--faults {faults}: {trial.problems[0]}"
            )
        runs += 1
        previews += sum(
            each.kind is Kind.TENTATIVE
            for client in trial.run.clients.values()
            for _, each in client.shown
        )
    return f"{runs} scenarios, {previews} previews, all corrected"
