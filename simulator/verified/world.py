"""Replicas, verifiers and a coordinator in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import (
    COORDINATOR,
    Agreed,
    Compute,
    Computed,
    Doubt,
    Finding,
    Holder,
    Input,
    JobState,
    Kind,
    Report,
    Run,
    Standing,
    Verifier,
    basis_of,
    combine,
    is_stale,
    next_steps,
)
from simulator.verified.job import Fault, FaultKind, Job, result_of, rows_of

LONGEST = 100_000.0
"""Seconds after which a job will never end."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A stage that a replica has begun to compute."""

    time: float
    replica: int
    step: Compute
    standing: Standing


@dataclass(slots=True)
class _Replica:
    number: int
    host: str
    incarnation: int = 0
    is_up: bool = True
    computed: dict[str, Computed] = field(default_factory=dict)
    step: Compute | None = None
    """What it computes."""
    begun: dict[str, int] = field(default_factory=dict)
    """How often it has computed each stage."""


class JobWorld:
    """One job from submission to its end."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.random = Random(f"{job.seed}/world")
        self.now = 0.0
        self.trace: list[Trace] = []
        self.delivered: dict[str, tuple[bytes, ...]] | None = None
        self.failure = ""
        self.standing: Standing | None = None
        """How the job stands, as the coordinator has heard last."""
        self.wrong: list[str] = []
        """Slices that a good verifier agreed upon and that are not right."""
        self.verifiers = [
            Verifier("job", job.plan, job.quorum, job.rules) for _ in range(self._verifier_count)
        ]
        self.calls: list[list[tuple[str, tuple[Any, ...]]]] = [[] for _ in self.verifiers]
        """What each verifier was told: its journal."""
        self.refused = 0
        self.dropped = 0
        """Steps that were not computed to their end."""
        self._storage: dict[str, bytes] = {}
        self._hollow: set[str] = set()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._replicas = {
            number: _Replica(number, f"host{number}") for number in job.quorum.numbers
        }
        self._spares = list(job.spares)
        self._takes = {stage: self.random.uniform(1, 5) for stage in job.plan.stages}
        self._over = False
        self._passed_on: set[tuple[Any, ...]] = set()
        self._looked_at: dict[int, Standing] = {}

    @property
    def _verifier_count(self) -> int:
        return self.job.quorum.replicas if self.job.all_to_all else self.job.verifiers

    @property
    def _needed(self) -> int | None:
        """How many verifiers must say the same, if not more than half."""
        return self.job.quorum.needed if self.job.all_to_all else None

    def run(self) -> None:
        for replica in self._replicas.values():
            self._at(self.random.uniform(0, 1), partial(self._begin, replica))
        self._coordinate(0.1)
        while self._queue and not self._over:
            self.now, _, call = heappop(self._queue)
            if self.now > LONGEST:
                return
            call()

    @property
    def is_endless(self) -> bool:
        return not self._over

    def replayed(self, number: int) -> Standing:
        """What a verifier says that was made anew from its journal."""
        again = Verifier("job", self.job.plan, self.job.quorum, self.job.rules)
        for name, arguments in self.calls[number]:
            getattr(again, name)(*arguments)
        return again.standing()

    def _at(self, delay: float, call: Callable[[], None]) -> None:
        heappush(self._queue, (self.now + delay, next(self._number), call))

    # Verifiers.

    def _tell(self, number: int, name: str, *arguments: Any) -> None:
        verifier = self.verifiers[number]
        try:
            getattr(verifier, name)(*arguments, self.now)
        except InvalidArgumentError:
            self.refused += 1
            return
        self.calls[number].append((name, (*arguments, self.now)))
        self._pass_on(number, name, *arguments)
        wake = verifier.next_wake
        if wake is not None:
            self._at(max(0.0, wake - self.now), lambda: self._wake(number))

    def _pass_on(self, number: int, name: str, *arguments: Any) -> None:
        """Verifiers tell each other what replicas have told them; bad ones do not."""
        if name in ("report", "broken") and number not in self.job.bad_verifiers:
            for other in range(len(self.verifiers)):
                if (other, name, arguments) not in self._passed_on:
                    self._passed_on.add((other, name, arguments))
                    delay = self.random.uniform(0, 2)
                    self._at(delay, partial(self._tell, other, name, *arguments))

    def _wake(self, number: int) -> None:
        wake = self.verifiers[number].next_wake
        if wake is not None and wake <= self.now:
            self._tell(number, "wake")

    def _send(self, name: str, *arguments: Any) -> None:
        """To all verifiers; each hears of it some time, perhaps twice."""
        for number in range(len(self.verifiers)):
            self._send_one(number, name, *arguments)

    def _send_one(self, number: int, name: str, *arguments: Any) -> None:
        for _ in range(1 if self.random.random() < 0.9 else 2):
            delay = self.random.choice([0.01, 0.02, 0.05, self.random.uniform(0, 2)])
            self._at(delay, lambda: self._tell(number, name, *arguments))

    def _hear(self, number: int, asker: int) -> Standing | None:
        if self.job.all_to_all and not self._replicas[number + 1].is_up:
            return None
        standing = self.verifiers[number].standing()
        if number not in self.job.bad_verifiers:
            self._look_for_wrong(standing)
            return standing
        return _lie(standing, self.job, Random(f"{self.job.seed}/{number}/{asker}/{self.now}"))

    def _consult(self, asker: int) -> Standing:
        if self.job.all_to_all and asker != COORDINATOR:
            standing = self.verifiers[asker - 1].standing()
            self._look_for_wrong(standing)
            return standing
        heard = [self._hear(number, asker) for number in range(len(self.verifiers))]
        return combine(self.job.plan, self.job.rules.retries, heard, self._needed)

    def _look_for_wrong(self, standing: Standing) -> None:
        if standing is self._looked_at.get(id(standing)):
            return
        self._looked_at[id(standing)] = standing
        for stage, verdict in standing.verdicts.items():
            for number, agreed in verdict.slices.items():
                if agreed.digest != self.job.truth[stage][number]:
                    self.wrong.append(f"stage {stage}, slice {number} at {self.now:g}")

    # Replicas.

    def _begin(self, replica: _Replica) -> None:
        self._send("start", replica.number, replica.host)
        self._poll(replica, replica.incarnation, 0.1)

    def _poll(self, replica: _Replica, incarnation: int, pause: float) -> None:
        if replica.incarnation != incarnation or not replica.is_up:
            return
        standing = self._consult(replica.number)
        steps = next_steps(
            self.job.plan, self.job.rules.mode, replica.number, standing, replica.computed
        )
        if steps and self._compute(replica, self.random.choice(steps), standing):
            return
        # Seldom when nothing happens for long.
        self._at(
            self.random.uniform(0.5, 1) * pause,
            lambda: self._poll(replica, incarnation, min(20.0, 1.2 * pause)),
        )

    def _compute(self, replica: _Replica, step: Compute, standing: Standing) -> bool:
        """Answers whether it goes on; it asks again what to do when it has ended."""
        data = self._read(replica, step)
        if data is None:
            return False
        self.trace.append(Trace(self.now, replica.number, step, standing))
        replica.begun[step.stage] = times = replica.begun.get(step.stage, 0) + 1
        faults = [
            fault
            for fault in self.job.faults
            if fault.replica == replica.number and fault.stage == step.stage
            if times <= fault.times
        ]
        incarnation = replica.incarnation
        takes = self._takes[step.stage] * self.random.uniform(0.8, 1.2)
        takes *= (self.job.speeds or {}).get(replica.number, 1.0)
        kinds = {fault.kind for fault in faults}
        if FaultKind.HANG in kinds:
            return True
        if kinds & {FaultKind.CRASH, FaultKind.RESTART}:
            is_back = FaultKind.RESTART in kinds
            self._at(takes * self.random.random(), lambda: self._crash(replica, is_back))
            return True

        begun = replica.step = step

        def finish() -> None:
            if replica.incarnation == incarnation and replica.is_up and replica.step is begun:
                replica.step = None
                self._finish(replica, step, basis_of(data), faults)
                self._poll(replica, incarnation, 0.1)

        self._at(takes, finish)
        self._watch(replica, incarnation, step)
        return True

    def _watch(self, replica: _Replica, incarnation: int, step: Compute) -> None:
        """Look now and then whether what it computes need not be computed any more."""
        if replica.incarnation != incarnation or not replica.is_up or replica.step is not step:
            return
        standing = self._consult(replica.number)
        plan, mode = self.job.plan, self.job.rules.mode
        if is_stale(plan, mode, replica.number, standing, replica.computed, step):
            self.dropped += 1
            replica.step = None
            self._poll(replica, incarnation, 0.1)
        else:
            self._at(self.random.uniform(0, 2), lambda: self._watch(replica, incarnation, step))

    def _read(self, replica: _Replica, step: Compute) -> dict[str, list[bytes]] | None:
        """What is read of each parent: every copy is hashed; None if no good one is left."""
        data: dict[str, list[bytes]] = {}
        for parent, slices in step.inputs.items():
            for number, each in enumerate(slices):
                found = self._read_slice(replica, parent, number, each)
                if found is None:
                    return None
                data.setdefault(parent, []).append(found)
        return data

    def _read_slice(self, replica: _Replica, parent: str, number: int, each: Input) -> bytes | None:
        for holder in each.holders:
            found = self._storage.get(holder.path)
            if found == each.digest:
                return found
            if holder.replica == replica.number and holder.path in self._hollow:
                # A liar knows what it has hidden, and does not tell.
                return each.digest
            self._send("broken", parent, number, holder.replica, replica.number)
        return None

    def _finish(self, replica: _Replica, step: Compute, basis: bytes, faults: list[Fault]) -> None:
        host = replica.host
        slices = []
        for number in range(self.job.plan.slices):
            mine = {f.kind for f in faults if f.slice is None or f.slice == number}
            right = result_of(step.stage, number, basis)
            data = self._spoil(right, mine, replica.number)
            path = f"job/{replica.number}/{step.stage}/{step.run}/{number}-{next(self._number)}"
            self._storage[path] = data
            if FaultKind.HOLLOW in mine:
                self._storage[path] = sha256(data).digest()
                self._hollow.add(path)
            slices.append(Agreed(data, rows_of(data), (Holder(replica.number, host, path),)))
            report = Report(
                "job",
                step.stage,
                step.run,
                number,
                replica.number,
                host,
                path,
                data,
                rows_of(data),
                step.basis,
            )
            self._report(report, mine)
            if FaultKind.TAMPER in mine:
                self._at(self.random.uniform(0, 9), partial(self._tamper, path))
        if any(fault.kind is FaultKind.REWRITE for fault in faults):
            self._rewrite(replica, replica.incarnation)
        replica.computed[step.stage] = Computed(step.run, step.digests, tuple(slices))
        if any(fault.kind is FaultKind.ACCUSE for fault in faults):
            self._accuse(replica)

    def _spoil(self, right: bytes, kinds: set[FaultKind], replica: int) -> bytes:
        if FaultKind.COLLUDE in kinds:
            return sha256(b"together" + right).digest()
        if FaultKind.WRONG in kinds:
            return sha256(f"alone {replica}".encode() + right).digest()
        return right

    def _report(self, report: Report, kinds: set[FaultKind]) -> None:
        other = sha256(b"other" + report.digest).digest()
        if FaultKind.MUTE in kinds:
            return
        if FaultKind.COUNT in kinds:
            report = replace(report, rows=report.rows + 1)
        if FaultKind.BASIS in kinds:
            report = replace(report, basis=other)
        if FaultKind.HOST in kinds:
            neighbour = f"host{report.replica % self.job.quorum.replicas + 1}"
            host = self.random.choice([neighbour, *self.job.spares])
            report = replace(report, host=host)
        if FaultKind.FORGED_RUN in kinds:
            for run in (Run(0, 1), Run(1, 0), Run(0, 9), Run(3, 3)):
                self._send("report", replace(report, run=run))
        if FaultKind.EQUIVOCATE in kinds:
            self._send("report", replace(report, digest=other))
        for number in range(len(self.verifiers)):
            is_split = FaultKind.SPLIT in kinds and number % 2
            said = replace(report, digest=other) if is_split else report
            self._send_one(number, "report", said)

    def _accuse(self, replica: _Replica) -> None:
        for stage in self.job.plan.stages:
            for number in range(self.job.plan.slices):
                for maker in self.job.quorum.numbers:
                    if maker != replica.number:
                        self._send("broken", stage, number, maker, replica.number)

    def _rewrite(self, replica: _Replica, incarnation: int) -> None:
        """Other bytes, those of an earlier file, or none: wherever it can write."""
        if replica.incarnation != incarnation:
            return
        old = next(iter(self._storage.values()), None)
        for path in list(self._storage):
            if not self.job.own_files or path.startswith(f"job/{replica.number}/"):
                spoiled = self.random.choice([b"\0" * 32, old, None])
                if spoiled is None:
                    del self._storage[path]
                else:
                    self._storage[path] = spoiled
        if self.random.random() < 0.9:
            again = partial(self._rewrite, replica, incarnation)
            self._at(self.random.uniform(0, 3), again)

    def _tamper(self, path: str) -> None:
        self._storage[path] = b"\0" * 32

    def _crash(self, replica: _Replica, is_back: bool) -> None:
        replica.is_up = False
        replica.incarnation += 1
        replica.computed.clear()
        self._at(1.0, lambda: self._all("gone", replica.number))
        if is_back:
            self._at(5.0, lambda: self._restart(replica))

    def _restart(self, replica: _Replica) -> None:
        """On a spare host if there is one; the verifiers know of it before it starts."""
        before = replica.host
        if self._spares:
            replica.host = self._spares.pop(0)
        self._all("back", replica.number, (before, replica.host))
        replica.is_up = True
        self._begin(replica)

    def _all(self, name: str, *arguments: Any) -> None:
        for number in range(len(self.verifiers)):
            self._tell(number, name, *arguments)

    # The coordinator.

    def _coordinate(self, pause: float) -> None:
        self.standing = standing = self._consult(COORDINATOR)
        for doubt in standing.doubts:
            agreed = standing.verdicts[doubt.stage].slices.get(doubt.slice)
            if agreed and self._storage.get(doubt.holder.path) != agreed.digest:
                self._all("broken", doubt.stage, doubt.slice, doubt.holder.replica, COORDINATOR)
        if standing.state is JobState.FAILED:
            self.failure = standing.failure
            self._over = True
        elif standing.state is JobState.DONE:
            self._deliver(standing)
        elif self._is_divided():
            self.failure = "the verifiers do not come to one end"
            self._over = True
        self._at(pause, lambda: self._coordinate(min(20.0, 1.1 * pause)))

    def _is_divided(self) -> bool:
        """Whether each has come to an end, and no end is that of most of them; so it stays."""
        states = Counter(
            verifier.state
            for number, verifier in enumerate(self.verifiers)
            if not self.job.all_to_all or self._replicas[number + 1].is_up
        )
        needed = self._needed or len(self.verifiers) // 2 + 1
        return not states[JobState.RUNNING] and max(states.values(), default=0) < needed

    def _deliver(self, standing: Standing) -> None:
        delivered: dict[str, tuple[bytes, ...]] = {}
        is_whole = True
        for stage in self.job.plan.outputs:
            data = []
            for number in range(self.job.plan.slices):
                agreed = standing.verdicts[stage].slices[number]
                good = None
                for holder in agreed.holders:
                    found = self._storage.get(holder.path)
                    if found == agreed.digest:
                        good = found
                        break
                    self._all("broken", stage, number, holder.replica, COORDINATOR)
                if good is None:
                    is_whole = False
                else:
                    data.append(good)
            delivered[stage] = tuple(data)
        if is_whole:
            self.delivered = delivered
            self._over = True


def _lie(standing: Standing, job: Job, random: Random) -> Standing | None:
    """What a bad verifier says."""
    what = random.choice(
        [
            "silence",
            "late runs",
            "wrong digests",
            "failed",
            "truth",
            "accusations",
            "less",
            "copies",
        ]
    )
    if what == "silence":
        return None
    if what == "accusations":
        return _accuse_all(standing, job)
    if what == "less":
        return replace(standing, verdicts=dict(list(standing.verdicts.items())[1:]))
    if what == "failed":
        return replace(standing, state=JobState.FAILED, failure="a lie")
    if what == "truth":
        return standing
    verdicts = {}
    for name, verdict in standing.verdicts.items():
        run = Run(*(random.choice([0, 1, job.rules.retries, 99]) for _ in range(2)))
        if what == "wrong digests":
            path = next(iter(f"{each}" for each in job.plan.stages))
            agreed = Agreed(b"\1" * 32, 1, (Holder(1, "host1", path),))
            slices = dict.fromkeys(range(job.plan.slices), agreed)
            verdicts[name] = replace(verdict, slices=slices)
        elif what == "copies":
            forged = (Holder(99, "nowhere", "nothing"),)
            slices = {n: replace(agreed, holders=forged) for n, agreed in verdict.slices.items()}
            verdicts[name] = replace(verdict, slices=slices)
        else:
            verdicts[name] = replace(verdict, run=run, slices={})
    return replace(standing, verdicts=verdicts)


def _accuse_all(standing: Standing, job: Job) -> Standing:
    everybody = tuple(job.quorum.numbers)
    stages = list(job.plan.stages)
    findings = [
        Finding(Kind.OUTVOTED, replica, "host", stage, Run(), 0, "a lie")
        for replica in everybody
        for stage in stages
    ]
    findings += [
        Finding(Kind.NO_QUORUM, 0, "", stage, Run(), 0, "a lie", (*everybody, 99))
        for stage in stages
    ]
    doubts = (
        Doubt(stages[0], 0, Holder(99, "host", "nothing")),
        Doubt("none", 99, Holder(1, "", "")),
    )
    return replace(standing, findings=(*standing.findings, *findings), doubts=doubts)
