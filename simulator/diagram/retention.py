"""How much of a stream its log must keep when it cannot keep all (digest §3.11, Eq. 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.diagram.plan import StagePlan


def retention(plans: Sequence[StagePlan], stream: str, corrected: float) -> float:
    """S: a log of the stream may drop rows older than its boundary less this.

    That is the windows of all stages behind it, on the longest path, so that each finds its state
    again, and `corrected` (W): for how long after a failure previews are still to be corrected.
    Infinite if a stage behind it does not converge: then nothing may be dropped that is not
    acknowledged, and the stream must wait. Plans come as `rewrite` orders them.
    """
    behind: dict[str, float] = {}
    for plan in reversed(plans):
        span = plan.span + max(behind.get(output.stream, 0) for output in plan.outputs)
        for name in plan.inputs:
            behind[name] = max(behind.get(name, 0), span)
    return behind.get(stream, 0) + corrected
