"""Votes on one slice, or one chunk of it, and the quorum that settles them.

A replica that says two things is named, and has a vote for each: two results of which both have
enough votes would need more honest replicas than there are. So it does not matter who hears what
first, and verifiers that have heard the same have agreed upon the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from itertools import chain
from typing import NamedTuple

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine.reports import Agreed, Holder, Report, Run


class Model(StrEnum):
    """What may go wrong with a replica."""

    CRASH = "crash"
    """It ends or hangs; what it says is right."""
    BYZANTINE = "byzantine"
    """It may say and do anything."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """For `faults` replicas that go wrong in any one stage."""

    model: Model
    faults: int = 1

    def __post_init__(self) -> None:
        if self.faults < 1:
            raise InvalidArgumentError(f"faults: {self.faults} is too few; give at least 1")

    @property
    def replicas(self) -> int:
        """How many there are; they are numbered from 1."""
        return self.faults + 1 if self.model is Model.CRASH else 3 * self.faults + 1

    @property
    def numbers(self) -> range:
        return range(1, self.replicas + 1)

    @property
    def needed(self) -> int:
        """How many must agree. Any two such groups of liars and others share an honest replica, so
        that no two digests can both be agreed upon."""
        return 1 if self.model is Model.CRASH else 2 * self.faults + 1

    @property
    def credible(self) -> int:
        """So many who say the same are not all liars."""
        return 1 if self.model is Model.CRASH else self.faults + 1


Votes = dict[int, list[Report]]
"""By replica."""

MAX_WORDS = 64
"""Reports of one replica on one slice that are kept. An honest one computes a stage again for each
run, and whenever a parent's slice turns out other than it thought."""


class Said(NamedTuple):
    """What is voted on."""

    digest: bytes
    rows: int


class Taken(Enum):
    """What became of a report."""

    NEW = auto()
    KNOWN = auto()
    CONTRADICTS = auto()
    """It says something else than an earlier one of the same replica, run and basis."""
    TOO_MANY = auto()


@dataclass(slots=True)
class Ballot:
    """What was agreed upon stays so; its copies may get lost."""

    agreed: Said | None = None
    holders: dict[int, Report] = field(default_factory=dict)
    """Whose copies may be read."""
    accusers: dict[int, set[int]] = field(default_factory=dict)
    """Who says of a holder that its copy is broken."""
    misplaced: set[tuple[int, Run]] = field(default_factory=set)
    """Replicas whose votes in a run count for nothing, for they ran where they should not."""
    two_faced: set[tuple[int, Run]] = field(default_factory=set)
    """Replicas that have said two things in a run; nobody reads their copies."""
    lost: set[tuple[int, Run]] = field(default_factory=set)
    """Replicas whose copies of a run were found to be broken; nobody reads them again."""
    reports: dict[int, dict[tuple[Run, bytes], list[Report]]] = field(default_factory=dict)
    """By replica, then by run and basis; more than one only of those that contradict themselves."""

    def judge(self, report: Report) -> Taken:
        """What would become of a report."""
        words = self.reports.get(report.replica, {})
        known = words.get((report.run, report.basis), [])
        if said_in(report) in map(said_in, known):
            return Taken.KNOWN
        if sum(map(len, words.values())) >= MAX_WORDS:
            return Taken.TOO_MANY
        return Taken.CONTRADICTS if known else Taken.NEW

    def take(self, report: Report) -> Taken:
        taken = self.judge(report)
        if taken in (Taken.NEW, Taken.CONTRADICTS):
            words = self.reports.setdefault(report.replica, {})
            words.setdefault((report.run, report.basis), []).append(report)
        return taken

    def place(self, replica: int, hosts: frozenset[str]) -> bool:
        """It was to run on other hosts than was known; answers whether votes count by that."""
        before = {each for each in self.misplaced if each[0] == replica}
        if not before:
            return False
        still = {
            (replica, run)
            for (run, _), words in self.reports[replica].items()
            if any(report.host not in hosts for report in words)
        }
        self.misplaced -= before - still
        return bool(before - still)

    def votes(self, run: Run, basis: bytes) -> Votes:
        """Those that count in a run: computed from what its parents were agreed to be."""
        return {
            replica: words[run, basis]
            for replica, words in self.reports.items()
            if (run, basis) in words and (replica, run) not in self.misplaced
        }

    def reporters(self, run: Run) -> set[int]:
        """Who has reported in a run, on whatever basis."""
        return {
            replica
            for replica, words in self.reports.items()
            if any(run == each for each, _ in words)
        }

    def away(self, run: Run) -> list[int]:
        """Who was misplaced in a run."""
        return sorted(replica for replica, each in self.misplaced if each == run)

    def settle(self, agreed: Said) -> None:
        self.agreed = agreed

    def hold(self, report: Report) -> None:
        self.holders.setdefault(report.replica, report)

    def lose(self, replica: int) -> None:
        held = self.holders.pop(replica, None)
        if held is not None:
            self.lost.add((replica, held.run))
        self.accusers.pop(replica, None)

    @property
    def doubtful(self) -> list[Holder]:
        """Holders of whom somebody says that their copy is broken."""
        return [self._holder(each) for each in self.accusers if each in self.holders]

    def verdict(self) -> Agreed | None:
        """None unless it is agreed upon and somebody holds it."""
        if self.agreed is None or not self.holders:
            return None
        holders = tuple(map(self._holder, sorted(self.holders)))
        return Agreed(self.agreed.digest, self.agreed.rows, holders)

    def data(self) -> bytes | None:
        """What was agreed upon itself, if somebody told it raw."""
        told = (report.data for report in self.holders.values())
        return next((data for data in told if data is not None), None)

    def _holder(self, replica: int) -> Holder:
        report = self.holders[replica]
        return Holder(replica, report.host, report.path)

    def forget(self) -> None:
        """Nothing is agreed upon any more; the reports stay."""
        self.agreed = None
        self.holders.clear()
        self.accusers.clear()


def said_in(report: Report) -> Said:
    return Said(report.digest, report.rows)


def rank(votes: Votes) -> list[tuple[Said, list[int]]]:
    """What was said and by whom, most first; of as many, that of the lowest number."""
    who: dict[Said, list[int]] = {}
    for replica in sorted(votes):
        for report in votes[replica]:
            who.setdefault(said_in(report), []).append(replica)
    return sorted(who.items(), key=lambda each: -len(each[1]))


def dissenters(votes: Votes) -> tuple[int, ...]:
    """Who says something else than most, in the order in which they should try elsewhere. Of those
    who are as many as others nobody knows who is right: one of each group comes first, so that few
    spare hosts do not all go to those who are."""
    groups = [who for _, who in rank(votes)]
    most = [who for who in groups if len(who) == len(groups[0])]
    fewer = sorted(groups[len(most) :], key=len)
    tied = zip(*most, strict=True) if len(most) > 1 else ()
    return tuple(dict.fromkeys(chain.from_iterable((*fewer, *tied))))
