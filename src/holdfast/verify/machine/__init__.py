"""State machine of verified execution: whole copies of a job check each other by stage.

Replicas report digests of what they have computed to a `Verifier`, which lets through what enough
of them agree on and names the others. What a replica does next follows from what the verifier says:
see `next_steps`. Nothing in here reads, writes, waits or looks at a clock.
"""

from holdfast.verify.machine.ballot import Model, Quorum
from holdfast.verify.machine.combine import combine
from holdfast.verify.machine.course import (
    Compute,
    Computed,
    Input,
    Mode,
    Rules,
    inputs_of,
    is_stale,
    next_steps,
)
from holdfast.verify.machine.plan import Plan, basis_of
from holdfast.verify.machine.reports import (
    Agreed,
    Doubt,
    Finding,
    Holder,
    JobState,
    Kind,
    Report,
    Run,
    StageState,
    Standing,
    Verdict,
)
from holdfast.verify.machine.verifier import COORDINATOR, Verifier

__all__ = [
    "COORDINATOR",
    "Agreed",
    "Compute",
    "Computed",
    "Doubt",
    "Finding",
    "Holder",
    "Input",
    "JobState",
    "Kind",
    "Mode",
    "Model",
    "Plan",
    "Quorum",
    "Report",
    "Rules",
    "Run",
    "StageState",
    "Standing",
    "Verdict",
    "Verifier",
    "basis_of",
    "combine",
    "inputs_of",
    "is_stale",
    "next_steps",
]
