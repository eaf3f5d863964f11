"""What a verifier has found out of replicas, in bounds: who does the same again and again is not
told of each time, for all of it is told to everybody who asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from holdfast.protocol.verification.verdicts import Finding, Kind

__all__ = ["MAX_FINDINGS", "Findings"]

MAX_FINDINGS = 64
"""Of one kind, of one replica, in one stage."""


class Findings:
    """In the order in which they were made, each once."""

    def __init__(self) -> None:
        self._found: dict[Finding, None] = {}
        self._counts: Counter[tuple[Kind, int, str]] = Counter()

    def add(self, finding: Finding) -> None:
        topic = (finding.kind, finding.replica, finding.stage)
        if finding in self._found or self._counts[topic] > MAX_FINDINGS:
            return
        self._counts[topic] += 1
        if self._counts[topic] > MAX_FINDINGS:
            text = "and so again, more often than is told here"
            finding = Finding(*topic[:2], "", finding.stage, finding.run, -1, text)
        self._found[finding] = None

    def withdraw(self, is_wrong: Callable[[Finding], bool]) -> None:
        """Forget what turns out not to be so."""
        for finding in [each for each in self._found if is_wrong(each)]:
            del self._found[finding]
            self._counts[finding.kind, finding.replica, finding.stage] -= 1

    @property
    def all(self) -> tuple[Finding, ...]:
        return tuple(self._found)

    @property
    def topics(self) -> int:
        """How many things there are to tell, if the same of one replica in one stage is one."""
        return len(+self._counts)
