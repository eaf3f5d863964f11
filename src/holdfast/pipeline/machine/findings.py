"""Findings about compared replicas: faults, and which of them count.

A reader keeps one for each of its inputs, for as long as it runs: a gate comes and goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from holdfast.pipeline.gates.gate import Accuse, Giveup, Split, Taint

ENOUGH_PROOF: Final = 64
"""So many accusations of one replica are kept."""


@dataclass(slots=True)
class Findings:
    """`proofs`: so many accusations put a replica into quarantine, where its votes are judged, but
    do not count. `faults`: there are never more in it, for then more lie than can be outvoted, and
    without their votes nothing could be agreed upon any more."""

    faults: int = 1
    proofs: int = 3
    accused: list[Accuse] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """How often each replica was accused since it was last admitted."""
    quarantined: set[str] = field(default_factory=set)
    tainted: list[Taint] = field(default_factory=list)
    gave_up: Giveup | None = None
    redone: int = 0
    splits: int = 0
    """On so many buckets nobody could agree, and the gate went on without."""
    split: Split | None = None
    """The last of them."""

    def accuse(self, accusation: Accuse) -> bool:
        """Note what a replica did; of one that goes on and on not all. Whether that puts it into
        quarantine."""
        name = accusation.replica
        self.counts[name] += 1
        if sum(each.replica == name for each in self.accused) < ENOUGH_PROOF:
            self.accused.append(accusation)
        is_full = len(self.quarantined) >= self.faults
        if name in self.quarantined or is_full or self.counts[name] < self.proofs:
            return False
        self.quarantined.add(name)
        return True

    def readmit(self, replica: str) -> bool:
        """Whether it was in quarantine; what it did before counts against it no more."""
        del self.counts[replica]
        if replica not in self.quarantined:
            return False
        self.quarantined.remove(replica)
        return True
