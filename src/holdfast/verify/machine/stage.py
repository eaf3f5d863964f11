"""One stage as the verifier knows it: its run, its basis, the votes on its slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.verify.machine.ballot import Ballot, Said, Taken, Votes, rank
from holdfast.verify.machine.reports import Agreed, Doubt, Report, Run, StageState, Verdict

MAX_CHUNK_WORDS = 1 << 16
"""Reports on chunks that are taken of one replica until the stage is computed again."""
MAX_RAW = 64 << 20
"""Bytes of raw chunks that are taken of one replica until then."""


class StageVotes:
    """A stage is OK when each of its slices is agreed upon and somebody holds a copy."""

    def __init__(self, name: str, slices: int) -> None:
        self.name = name
        self.run = Run()
        self.basis: bytes | None = None
        """What it is to be computed from; None until all its parents are agreed upon."""
        self.ballots = [Ballot() for _ in range(slices)]
        self.open = set(range(slices))
        """Slices that are not agreed upon, or of which all copies are lost."""
        self.ripe: dict[int, float] = {}
        """Slices on which so many have voted that the others are late, and since when; in this
        order."""
        self.late: set[int] = set()
        """Slices for whose other votes nobody waits any longer."""
        self.hosts: dict[tuple[Run, str], int] = {}
        """Which replica was the first to report from a host, by run."""
        self._chunks: dict[tuple[int, int], Ballot] = {}
        self._chunk_words: Counter[int] = Counter()
        self._raw: Counter[int] = Counter()
        self._ahead: dict[Run, set[int]] = {}
        self._earlier: dict[int, Said] = {}

    @property
    def is_ok(self) -> bool:
        return not self.open

    @property
    def undecided(self) -> list[int]:
        """In order."""
        return [number for number in sorted(self.open) if self.ballots[number].agreed is None]

    @property
    def has_reports(self) -> bool:
        """Whether anybody has reported in this run. If not, it has just begun, and whoever
        computes it makes new copies of all slices."""
        return any(ballot.reporters(self.run) for ballot in self.ballots)

    @property
    def chunks(self) -> Iterator[Ballot]:
        return iter(self._chunks.values())

    def ballot(self, report: Report) -> Ballot:
        """The one that a report is for."""
        if report.seq is None:
            return self.ballots[report.slice]
        return self._chunks.get((report.slice, report.seq)) or Ballot()

    def take(self, report: Report) -> Taken:
        ballot = self.ballot(report)
        if report.seq is None:
            return ballot.take(report)
        words = self._chunk_words[report.replica] + 1
        raw = self._raw[report.replica] + len(report.data or b"")
        taken = ballot.judge(report)
        if taken in (Taken.KNOWN, Taken.TOO_MANY):
            return taken
        if words > MAX_CHUNK_WORDS or raw > MAX_RAW:
            return Taken.TOO_MANY
        self._chunk_words[report.replica] = words
        self._raw[report.replica] = raw
        self._chunks[report.slice, report.seq] = ballot
        return ballot.take(report)

    def place(self, replica: int, hosts: frozenset[str]) -> bool:
        """It was to run on other hosts than was known; answers whether votes count by that."""
        moved = [ballot.place(replica, hosts) for ballot in (*self.ballots, *self.chunks)]
        return any(moved)

    def chunk(self, number: int, seq: int) -> Agreed | None:
        ballot = self._chunks.get((number, seq))
        return None if ballot is None else ballot.verdict()

    def raw_chunk(self, number: int, seq: int) -> bytes | None:
        ballot = self._chunks.get((number, seq))
        return None if ballot is None else ballot.data()

    def votes(self, number: int) -> Votes:
        """Those that count now."""
        if self.basis is None:
            return {}
        return self.ballots[number].votes(self.run, self.basis)

    def ahead(self, report: Report) -> int:
        """How many replicas are known to be in the later run of this report."""
        replicas = self._ahead.setdefault(report.run, set())
        replicas.add(report.replica)
        return len(replicas)

    def settle(self, number: int, said: Said) -> bool:
        """Agree upon a slice; False if something else was agreed upon in an earlier epoch."""
        self.ballots[number].settle(said)
        self.ripe.pop(number, None)
        self.late.discard(number)
        return self._earlier.setdefault(number, said) == said

    def hold(self, report: Report) -> None:
        """Another copy of what is agreed upon."""
        self.ballot(report).hold(report)
        if report.seq is None:
            self.open.discard(report.slice)

    def lose(self, number: int, replica: int) -> None:
        """A copy that must not be read any more."""
        ballot = self.ballots[number]
        ballot.lose(replica)
        if not ballot.holders:
            self.open.add(number)

    def begin(self, run: Run) -> None:
        """Another attempt: what is agreed upon stays so."""
        self.run = run
        self.ripe.clear()
        self.late.clear()
        self._chunk_words.clear()
        self._raw.clear()

    def forget(self, run: Run) -> None:
        """Another epoch: all is to be agreed upon again."""
        self.begin(run)
        self.basis = None
        self.open = set(range(len(self.ballots)))
        for ballot in (*self.ballots, *self.chunks):
            ballot.forget()

    def verdict(self) -> Verdict:
        found = {number: ballot.verdict() for number, ballot in enumerate(self.ballots)}
        return Verdict(
            self.name,
            self.run,
            StageState.OK if self.is_ok else StageState.OPEN,
            {number: agreed for number, agreed in found.items() if agreed is not None},
        )

    def doubts(self) -> Iterator[Doubt]:
        for number, ballot in enumerate(self.ballots):
            for holder in ballot.doubtful:
                yield Doubt(self.name, number, holder)

    def describe(self, number: int, replicas: range) -> str:
        """Who said what of a slice, in words."""
        votes = self.votes(number)
        away = self.ballots[number].away(self.run)
        parts = [
            f"{name_replicas(who)} {'says' if len(who) == 1 else 'agree on'} "
            f"{said.digest.hex()[:12]} ({said.rows} rows)"
            for said, who in rank(votes)
        ]
        if away:
            parts.append(f"{name_replicas(away)} ran elsewhere than planned")
        silent = [each for each in replicas if each not in votes and each not in away]
        if silent:
            parts.append(f"{name_replicas(silent)} said nothing of use")
        return f"slice {number}: {', '.join(parts)}"


def name_replicas(replicas: list[int]) -> str:
    if not replicas:
        return ""
    if len(replicas) == 1:
        return f"replica {replicas[0]}"
    return f"replicas {', '.join(map(str, replicas[:-1]))} and {replicas[-1]}"
