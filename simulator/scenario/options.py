"""What is not left to the seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidArgumentError

POLICIES: Final = ("switch", "order", "vote", "vote-latest", "sample", "first", "latest")
FAULTS: Final = (
    "all",
    "none",
    "short",
    "cuts",
    "crashes",
    "frequent",
    "long",
    "wipes",
    "varied",
    "unruly",
    "restarts",
    "clocks",
    "lasting",
)

EXACTLY_ONCE: Final = ("chain-2", "chain-3", "window", "diamond")
COMPARING: Final = {
    "vote": EXACTLY_ONCE,
    "first": EXACTLY_ONCE,
    "vote-latest": ("chain-2",),
    "sample": ("chain-2",),
    "latest": ("chain-2",),
}
"""Policies that compare the replicas of a first stage, and topologies with others behind it that
can be checked: where buckets may be missing, those without state."""
BYZANTINE: Final = ("vote", "vote-latest", "sample")
WITH_TWINS: Final = ("switch", "order")
"""Policies under which sources may have a hot standby."""
NOT_COMPARED: Final = ("wipes", "varied", "clocks", "lasting")
"""Faults that go only with policies that read one replica at a time."""
RESTARTS: Final = "restarts"
"""Nodes come back with their disk. Not for `sample`, whose readers forget over a restart what is
still to be voted on."""
UNRULY: Final = "unruly"
"""All faults, with liars that leave messages out, repeat and disorder them, be it two of seven."""
FAULTY: Final = 1
"""How many replicas these policies outvote, but for the unruly."""


@dataclass(frozen=True, slots=True)
class Options:
    """The pipeline, the policy of its gates and the kinds of faults."""

    topology: str = "any"
    policy: str = "switch"
    faults: str = "all"

    def __post_init__(self) -> None:
        for name, given, known in (
            ("policy", self.policy, POLICIES),
            ("faults", self.faults, FAULTS),
        ):
            if given not in known:
                raise InvalidArgumentError(f"{name}: is {given!r}; give one of {', '.join(known)}")
        refusal = _refusal(self.policy, self.faults)
        if refusal is not None:
            raise InvalidArgumentError(f"faults: is {self.faults!r} with {refusal}")
        fitting = ("any", *COMPARING.get(self.policy, (self.topology,)))
        if self.topology not in fitting:
            raise InvalidArgumentError(
                f"topology: is {self.topology!r} with policy {self.policy!r}, which compares the "
                f"replicas of a first stage; give one of {', '.join(fitting)}"
            )


def _refusal(policy: str, faults: str) -> str | None:
    """What is wrong with these faults under this policy; None if nothing is."""
    if faults in NOT_COMPARED and policy in COMPARING:
        return f"policy {policy!r}, which compares replicas; give it with switch or order"
    if faults == RESTARTS and policy == "sample":
        return (
            "policy 'sample', whose readers forget over a restart what is still to be voted on; "
            "give it with another policy"
        )
    if faults == UNRULY and policy not in BYZANTINE:
        return f"policy {policy!r}, which has no liars; give it with {', '.join(BYZANTINE)}"
    return None


FAMILIES: Final = tuple(
    (policy, faults) for policy in POLICIES for faults in FAULTS if _refusal(policy, faults) is None
)
"""Policies, each with the faults that go with it."""
