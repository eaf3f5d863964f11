"""Verified jobs in the simulator: every mode, within what the quorum is for and beyond it."""

from __future__ import annotations

from holdfast.verify.machine import Mode
from simulator.verified import draw_job, try_job

DESCRIPTION = "verified jobs under simulated lies, crashes and broken storage, in every mode"


def run(seed: int) -> str:
    """The jobs of one seed; raises on the first that is not right."""
    delivered = failed = 0
    for mode in Mode:
        for beyond in (False, True):
            trial = try_job(draw_job(seed, mode=mode, beyond=beyond))
            if trial.problems:
                raise AssertionError(
                    f"try_job(draw_job({seed}, mode=Mode({mode.value!r}), beyond={beyond})): "
                    f"{trial.problems[0]}"
                )
            delivered += trial.world.delivered is not None
            failed += trial.world.delivered is None
    return f"{delivered} delivered as the clean run would, {failed} failed and said why"
