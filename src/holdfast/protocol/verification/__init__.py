"""Verified execution: whole copies of a job check each other, stage by stage.

Replicas report digests of what they have computed to a `Verifier`, which lets through what enough
of them agree on and names the others. What a replica does next follows from what the verifier says:
see `next_steps`. Nothing in here reads, writes, waits or looks at a clock.
"""

from holdfast.protocol.verification.combine import combine
from holdfast.protocol.verification.course import (
    Compute,
    Computed,
    Input,
    Mode,
    inputs_of,
    is_stale,
    next_steps,
)
from holdfast.protocol.verification.plan import Plan, basis_of
from holdfast.protocol.verification.quorum import Model, Quorum
from holdfast.protocol.verification.reports import Report, Run
from holdfast.protocol.verification.rules import Rules
from holdfast.protocol.verification.verdicts import (
    Agreed,
    Doubt,
    Finding,
    Holder,
    JobState,
    Kind,
    StageState,
    Standing,
    Verdict,
)
from holdfast.protocol.verification.verifier import COORDINATOR, Verifier

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
