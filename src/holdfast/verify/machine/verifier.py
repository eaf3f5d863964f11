"""The verifier: takes reports of replicas, says which slices are agreed upon.

A state machine: the same calls in the same order make the same verifier, so that one that was
killed goes on from the journal of its calls. Times are seconds of a clock that only goes forward.

A report counts only if it was computed from what the stage's parents were agreed to be. So a
replica whose input was outvoted later does not spend the faults that the next stage may have, does
not contradict itself when it computes again, and nothing is agreed upon before its parents are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import chain

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine.ballot import (
    MAX_WORDS,
    Ballot,
    Model,
    Quorum,
    Taken,
    Votes,
    dissenters,
    rank,
    said_in,
)
from holdfast.verify.machine.course import Mode, Rules
from holdfast.verify.machine.plan import Plan, basis_of
from holdfast.verify.machine.reports import (
    Agreed,
    Finding,
    Findings,
    JobState,
    Kind,
    Report,
    Run,
    Standing,
    Verdict,
)
from holdfast.verify.machine.stage import (
    MAX_CHUNK_WORDS,
    MAX_RAW,
    StageVotes,
    name_replicas,
)

COORDINATOR = 0
"""Stands for the one who is trusted, where else the number of a replica stands."""
MAX_STARTS = 64
"""How often it is taken of a replica that it starts on another host."""
MOST_CHUNK_WORDS = 2 * MAX_CHUNK_WORDS
"""Reports on chunks that are taken of one replica, whatever is computed again."""
MOST_RAW = 4 * MAX_RAW
"""Bytes of raw chunks that are."""
SHOWN = 5
"""Slices that a failure describes."""


class Verifier:
    """Of one job. What happens is told to it; each such call answers whether anything has changed,
    and so whether it must be remembered."""

    def __init__(self, job: str, plan: Plan, quorum: Quorum, rules: Rules | None = None) -> None:
        self.job = job
        self.plan = plan
        self.quorum = quorum
        self.rules = rules or Rules()
        self.state = JobState.RUNNING
        self.failure = ""
        self.started: dict[int, str] = {}
        """The hosts of those that have said that they start."""
        self.version = 0
        """Goes up with each call that may have changed an answer."""
        self._stages = {name: StageVotes(name, plan.slices) for name in plan.stages}
        self._pools = dict(self.rules.pools)
        """The hosts where each replica was to run, all told."""
        self._gone: set[int] = set()
        self._starts: Counter[int] = Counter()
        self._findings = Findings()
        self._said_by: Counter[tuple[int, bool]] = Counter()
        """Reports that were taken of each replica: of slices (True) and of chunks."""
        self._raw: Counter[int] = Counter()
        """Bytes of raw chunks that were taken of each."""
        self._short_until: float | None = None
        """How long to wait for somebody to come back, when fewer are there than must agree."""
        self._is_short = False
        """Whether that was in vain."""
        self._news: float | None = None
        """When the job came further last, or somebody started."""
        self._said: tuple[int, Standing] | None = None
        """The version that was asked for last."""
        self._doubted: set[tuple[str, int, int]] = set()
        """In which stage whose copies were called broken, and by whom."""
        self._turn: tuple[int, object] = (0, None)
        """The version of the last turn, and what made it one."""
        for name in plan.stages:
            self._bind(name)
        self._progress = self._outline()

    # What happens.

    def start(self, replica: int, host: str, now: float) -> bool:
        """A replica says that it starts."""
        self._check_replica(replica)
        before = self.started.get(replica)
        if before == host or self._starts[replica] >= MAX_STARTS:
            return False
        self._starts[replica] += 1
        self.started[replica] = host
        self.version += 1
        if before is None:
            self._news = now
        return True

    def gone(self, replica: int, now: float, *, over_quota: str = "") -> bool:
        """Its process has ended. What it has reported still counts. `over_quota`: how much it took
        of the storage, if it was ended for that."""
        self._check_replica(replica)
        if replica in self._gone:
            return False
        self._gone.add(replica)
        host = self.started.pop(replica, "")
        kind = Kind.OVER_QUOTA if over_quota and self.rules.own_files else Kind.MISSING
        text = over_quota or "its process has ended"
        if over_quota and not self.rules.own_files:
            text = f"its folder {over_quota}; storage shared: author not known"
        self._add(Finding(kind, replica, host, "", Run(), -1, text))
        self.version += 1
        if self._alive == self.quorum.needed - 1:
            self._short_until = now + self.rules.patience
        self._weigh_all(now)
        return True

    def back(self, replica: int, hosts: Collection[str], now: float) -> bool:
        """It is started again, or elsewhere. `hosts`: all where it was to run so far and is to run
        now; none if they are what they were."""
        self._check_replica(replica)
        self._gone.discard(replica)
        if self._alive >= self.quorum.needed:
            self._short_until = None
            self._is_short = False
        self.version += 1
        self._news = now
        if hosts and replica in self._pools:
            self._place(replica, frozenset(hosts), now)
        return True

    def report(self, report: Report, now: float) -> bool:
        """A replica has computed a slice, or a chunk of one."""
        stage = self._check_report(report)
        if self.state is JobState.FAILED:
            return False
        taken = Taken.TOO_MANY if self._is_too_much(stage, report) else stage.take(report)
        if taken is Taken.TOO_MANY:
            raise InvalidArgumentError(
                f"report: replica {report.replica} has said too much of slice {report.slice} of "
                f"stage {report.stage}; nothing more is taken of it"
            )
        if taken is Taken.KNOWN:
            return False
        self._count(report)
        self.version += 1
        ballot = stage.ballot(report)
        self._audit_host(stage, ballot, report)
        if taken is Taken.CONTRADICTS:
            self._contradicted(stage, ballot, report, now)
        elif report.run > stage.run and not stage.is_ok:
            self._follow(stage, report, now)
        elif ballot.agreed is not None:
            self._judge(stage, report)
            self._finish(stage, now)
        elif report.seq is not None:
            self._weigh_chunk(stage, ballot)
        else:
            self._weigh(stage, report.slice, now)
        self._note_progress(now)
        return True

    def broken(self, stage_name: str, number: int, maker: int, accuser: int, now: float) -> bool:
        """Somebody has read the copy of a slice that its maker holds, and it has another digest.

        The coordinator is believed, and the maker itself; of others so many that not all lie."""
        stage = self._check_stage(stage_name, number)
        self._check_replica(maker)
        if accuser != COORDINATOR:
            self._check_replica(accuser)
        ballot = stage.ballots[number]
        is_known = accuser in ballot.accusers.get(maker, ())
        if is_known or maker not in ballot.holders or self.state is JobState.FAILED:
            return False
        self.version += 1
        self._doubted.add((stage_name, maker, accuser))
        accusers = ballot.accusers.setdefault(maker, set())
        accusers.add(accuser)
        if accusers & {COORDINATOR, maker} or len(accusers) >= self.quorum.credible:
            self._find_broken(ballot.holders[maker])
            self._lose(stage, number, maker, now)
        self._note_progress(now)
        return True

    def wake(self, now: float) -> None:
        """To be called when `next_wake` has come."""
        if self.state is not JobState.RUNNING:
            return
        self.version += 1
        if self._news is None:
            self._news = now
        if self._short_until is not None and self._short_until <= now:
            self._short_until = None
            self._is_short = True
        for stage in self._stages.values():
            self._miss(stage, now)
        self._weigh_all(now)
        self._note_progress(now)
        if self._stalls_at is not None and self._stalls_at <= now:
            self._fail(
                f"nothing was agreed upon for {self.rules.limit:g} seconds; {self._unfinished()}; "
                "see whether the replicas run, or give a larger limit"
            )

    @property
    def next_wake(self) -> float | None:
        """When something is to be decided although nothing comes in."""
        if self.state is not JobState.RUNNING:
            return None
        first = [next(iter(stage.ripe.values())) for stage in self._stages.values() if stage.ripe]
        times = [since + self.rules.patience for since in first]
        if self._short_until is not None:
            times.append(self._short_until)
        if self._stalls_at is not None:
            times.append(self._stalls_at)
        return min(times, default=None)

    # What is answered.

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order in which they were made, each once."""
        return self._findings.all

    def verdict(self, stage_name: str) -> Verdict:
        return self._check_stage(stage_name, 0).verdict()

    def chunk(self, stage_name: str, number: int, seq: int) -> Agreed | None:
        """What was agreed upon of a chunk; None as long as nothing is."""
        return self._check_stage(stage_name, number).chunk(number, seq)

    def raw_chunk(self, stage_name: str, number: int, seq: int) -> bytes | None:
        """A chunk that was agreed upon itself, if it was told raw."""
        return self._check_stage(stage_name, number).raw_chunk(number, seq)

    @property
    def turned(self) -> int:
        """The version by which somebody who waits may have something else to do: a stage was agreed
        upon or is computed again, somebody was found to be wrong in it, or the job has ended. Most
        reports are no such news; to tell all of them to all takes as long as slices times reports.
        """
        stages = [(stage.run, stage.is_ok) for stage in self._stages.values()]
        outline = (self.state, stages, self._findings.topics, len(self._doubted))
        if outline != self._turn[1]:
            self._turn = self.version, outline
        return self._turn[0]

    def standing(self) -> Standing:
        if self._said is None or self._said[0] != self.version:
            verdicts = {name: stage.verdict() for name, stage in self._stages.items()}
            doubts = tuple(each for stage in self._stages.values() for each in stage.doubts())
            standing = Standing(self.state, verdicts, self.findings, self.failure, doubts)
            self._said = self.version, standing
        return self._said[1]

    # What comes in is checked; what is refused has changed nothing.

    def _check_replica(self, replica: int) -> None:
        if replica not in self.quorum.numbers:
            raise InvalidArgumentError(
                f"replica: there is no {replica}; they are numbered 1 to {self.quorum.replicas}"
            )

    def _check_stage(self, name: str, number: int) -> StageVotes:
        stage = self._stages.get(name)
        if stage is None:
            raise InvalidArgumentError(
                f"stage: job {self.job} has no {name!r}; name one of {', '.join(self._stages)}"
            )
        if not 0 <= number < self.plan.slices:
            raise InvalidArgumentError(
                f"slice: stage {name} has no slice {number}; "
                f"they are numbered 0 to {self.plan.slices - 1}"
            )
        return stage

    def _check_report(self, report: Report) -> StageVotes:
        if report.job != self.job:
            raise InvalidArgumentError(
                f"job: this is the verifier of {self.job!r}, not of {report.job!r}"
            )
        self._check_replica(report.replica)
        stage = self._check_stage(report.stage, report.slice)
        report.check(self.rules.retries)
        return stage

    def _is_too_much(self, stage: StageVotes, report: Report) -> bool:
        """Whether it is new, and its replica has said so much that nothing new is taken of it."""
        words, raw = self._said_by[report.replica, report.seq is None], self._raw[report.replica]
        if report.seq is None:
            # All slices once in each run, and then some.
            most = (self.rules.retries + 2) * self.plan.slices * len(self.plan.stages) + MAX_WORDS
            is_full = words >= most
        else:
            is_full = words >= MOST_CHUNK_WORDS or raw + len(report.data or b"") > MOST_RAW
        return is_full and stage.ballot(report).judge(report) is not Taken.KNOWN

    def _count(self, report: Report) -> None:
        self._said_by[report.replica, report.seq is None] += 1
        self._raw[report.replica] += len(report.data or b"")

    # What a report does.

    def _audit_host(self, stage: StageVotes, ballot: Ballot, report: Report) -> None:
        pool = self._pools.get(report.replica)
        if pool is not None and report.host not in pool:
            ballot.misplaced.add((report.replica, report.run))
            place = ", ".join(sorted(pool))
            self._find(Kind.MISPLACED, report, f"ran on {report.host}, was to run on {place}")
            return
        first = stage.hosts.setdefault((report.run, report.host), report.replica)
        if first == report.replica:
            return
        if self.rules.shared_hosts:
            # Once for each replica: it is as it was wanted, and so in every slice of every stage.
            text = f"ran on {report.host} as others did"
            of = (Kind.SHARED_HOST, report.replica, report.host)
            self._add(Finding(*of, "", Run(), -1, text))
            return
        text = f"ran on {report.host}, where replica {first} ran stage {stage.name} too"
        self._find(Kind.SHARED_HOST, report, text)
        self._fail(
            f"stage {stage.name}: replica {report.replica} {text}, so that one machine could "
            "spoil both; give the replicas hosts of their own, or allow shared hosts (for "
            "development only)"
        )

    def _contradicted(self, stage: StageVotes, ballot: Ballot, report: Report, now: float) -> None:
        ballot.two_faced.add((report.replica, report.run))
        text = "reported two results of one slice: it lies, or the stage is not deterministic"
        self._find(Kind.EQUIVOCATED, report, text)
        if self.quorum.model is Model.CRASH:
            self._fail_undecidable(report, f"replica {report.replica} has two results")
        elif report.seq is not None:
            self._weigh_chunk(stage, ballot)
        elif ballot.agreed is None:
            self._weigh(stage, report.slice, now)
        elif (held := ballot.holders.get(report.replica)) is not None and held.run == report.run:
            self._lose(stage, report.slice, report.replica, now)

    def _follow(self, stage: StageVotes, report: Report, now: float) -> None:
        """Begin a run that other verifiers have begun: so many replicas are in it that not all of
        them lie."""
        if stage.ahead(report) < self.quorum.credible:
            return
        if report.run.epoch > stage.run.epoch:
            self._restart(report.run.epoch)
        if report.run > stage.run:
            stage.begin(report.run)
        self._recount(stage, now)

    def _place(self, replica: int, hosts: frozenset[str], now: float) -> None:
        """Let what it has reported from there before count too."""
        self._pools[replica] = hosts
        self._findings.withdraw(
            lambda found: (
                found.kind is Kind.MISPLACED and found.replica == replica and found.host in hosts
            )
        )
        for stage in self._stages.values():
            if stage.place(replica, hosts):
                self._recount(stage, now)

    def _recount(self, stage: StageVotes, now: float) -> None:
        """Votes count that did not."""
        for number in range(self.plan.slices):
            if stage.ballots[number].agreed is not None:
                for each in chain.from_iterable(stage.votes(number).values()):
                    self._judge(stage, each)
        for ballot in stage.chunks:
            self._weigh_chunk(stage, ballot)
        self._finish(stage, now)
        self._weigh_all(now)

    def _weigh_all(self, now: float) -> None:
        for stage in self._stages.values():
            for number in stage.undecided:
                self._weigh(stage, number, now)

    def _weigh(self, stage: StageVotes, number: int, now: float) -> None:
        """See what the votes on a slice settle that is not agreed upon."""
        is_settled = stage.ballots[number].agreed is not None
        if stage.basis is None or is_settled or self.state is not JobState.RUNNING:
            return
        votes = stage.votes(number)
        ranked = rank(votes)
        if ranked and len(ranked[0][1]) >= self.quorum.needed:
            self._settle(stage, number, now)
            return
        if len(votes) >= self.quorum.needed and number not in stage.late:
            stage.ripe.setdefault(number, now)
        most = len(ranked[0][1]) if ranked else 0
        if most + len(self._outstanding(stage, number)) < self.quorum.needed:
            self._hang(stage, number, now)

    def _outstanding(self, stage: StageVotes, number: int) -> list[int]:
        """Who may still vote on a slice."""
        if number in stage.late:
            return []
        ballot = stage.ballots[number]
        heard = {*stage.votes(number), *ballot.away(stage.run)}
        if self.rules.mode is Mode.NON_BLOCKING:
            # Nobody computes again there.
            heard |= ballot.reporters(stage.run)
        return [each for each in self.quorum.numbers if each not in heard | self._gone]

    def _weigh_chunk(self, stage: StageVotes, ballot: Ballot) -> None:
        if stage.basis is None or ballot.agreed is not None:
            return
        votes = ballot.votes(stage.run, stage.basis)
        ranked = rank(votes)
        if ranked and len(ranked[0][1]) >= self.quorum.needed:
            ballot.settle(ranked[0][0])
            self._judge_all(stage, ballot, votes)

    def _settle(self, stage: StageVotes, number: int, now: float) -> None:
        votes = stage.votes(number)
        said = rank(votes)[0][0]
        if not stage.settle(number, said):
            self._fail(
                f"stage {stage.name}, slice {number}: two different results were agreed upon in "
                f"two epochs; more than {self.quorum.faults} replicas are wrong, or the stage is "
                "not deterministic"
            )
            return
        self._judge_all(stage, stage.ballots[number], votes)
        self._finish(stage, now)

    def _finish(self, stage: StageVotes, now: float) -> None:
        """See what follows if the stage is OK now."""
        if not stage.is_ok or self.state is not JobState.RUNNING:
            return
        if all(self._stages[name].is_ok for name in self.plan.outputs):
            self.state = JobState.DONE
            return
        for child in self.plan.children(stage.name):
            if self._stages[child].basis is None and self._bind(child):
                for number in self._stages[child].undecided:
                    self._weigh(self._stages[child], number, now)
                for ballot in self._stages[child].chunks:
                    self._weigh_chunk(self._stages[child], ballot)

    def _bind(self, name: str) -> bool:
        """Let a stage have its basis if all its parents are agreed upon."""
        parents = {parent: self._stages[parent] for parent in self.plan.parents(name)}
        if not all(parent.is_ok for parent in parents.values()):
            return False
        self._stages[name].basis = basis_of(
            {each: parent.verdict().digests(self.plan.slices) for each, parent in parents.items()},
            self.plan.pins,
        )
        return True

    def _judge_all(self, stage: StageVotes, ballot: Ballot, votes: Votes) -> None:
        reports = chain.from_iterable(votes.values())
        for report in sorted(reports, key=lambda report: said_in(report) != ballot.agreed):
            self._judge(stage, report)

    def _judge(self, stage: StageVotes, report: Report) -> None:
        """Who says what is agreed upon, be it late, holds it; who says something else is named."""
        ballot = stage.ballot(report)
        of = (report.replica, report.run)
        if report.basis != stage.basis or of in ballot.misplaced | ballot.two_faced | ballot.lost:
            return
        if said_in(report) == ballot.agreed:
            stage.hold(report)
            return
        assert ballot.agreed is not None
        others = sorted(replica for replica in ballot.holders if replica != report.replica)
        what = "its result" if report.seq is None else "a part of its result"
        text = f"{what} is not that of {name_replicas(others) or 'the others'}"
        if report.digest == ballot.agreed.digest:
            text = f"said {report.rows} rows where there are {ballot.agreed.rows}"
        self._find(Kind.OUTVOTED, report, text)
        if self.quorum.model is Model.CRASH:
            self._fail_undecidable(
                report, f"{name_replicas(sorted([*others, report.replica]))} have different results"
            )

    # What goes wrong.

    def _miss(self, stage: StageVotes, now: float) -> None:
        """Name those whose votes are awaited no longer."""
        for number in [n for n, since in stage.ripe.items() if since + self.rules.patience <= now]:
            del stage.ripe[number]
            stage.late.add(number)
            votes = stage.votes(number)
            for replica in self.quorum.numbers:
                if replica not in votes:
                    host = self.started.get(replica, "")
                    text = f"said nothing of use for {self.rules.patience:g} seconds"
                    self._add(
                        Finding(Kind.MISSING, replica, host, stage.name, stage.run, number, text)
                    )

    def _hang(self, stage: StageVotes, number: int, now: float) -> None:
        """Too few can agree on a slice."""
        if self._alive < self.quorum.needed:
            # To compute it again would not help; perhaps somebody comes back.
            if self._is_short:
                self._fail(
                    f"{self._alive} of {self.quorum.replicas} replicas are left and "
                    f"{self.quorum.needed} must agree; {name_replicas(sorted(self._gone))} ended; "
                    f"{self._unfinished()}; see their logs, and submit the job again"
                )
            return
        text = stage.describe(number, self.quorum.numbers)
        others = dissenters(stage.votes(number))
        self._add(Finding(Kind.NO_QUORUM, 0, "", stage.name, stage.run, number, text, others))
        self._again(stage, now)

    def _find_broken(self, held: Report) -> None:
        if self.rules.own_files:
            text = "its file does not have the digest that it reported"
            self._find(Kind.BROKEN_DATA, held, text)
            return
        text = (
            f"the file of replica {held.replica} was changed or was wrong; storage shared: author "
            "not known"
        )
        of = (Kind.SPOILED_FILE, COORDINATOR, "", held.stage, held.run, held.slice)
        self._add(Finding(*of, text))

    def _lose(self, stage: StageVotes, number: int, replica: int, now: float) -> None:
        stage.lose(number, replica)
        if not stage.ballots[number].holders:
            self._copy_again(stage, now)

    def _copy_again(self, stage: StageVotes, now: float) -> None:
        """All copies of a slice are lost: have it computed again if anybody wants it."""
        children = self.plan.children(stage.name)
        if children and all(self._stages[child].is_ok for child in children):
            return
        self.state = JobState.RUNNING
        if stage.has_reports:
            self._again(stage, now)
        if self.rules.mode is Mode.NON_BLOCKING:
            return
        for parent in self.plan.parents(stage.name):
            if not self._stages[parent].is_ok:
                self._copy_again(self._stages[parent], now)

    def _again(self, stage: StageVotes, now: float) -> None:
        """Compute a stage again, or the whole job where nothing blocks."""
        is_whole = self.rules.mode is Mode.NON_BLOCKING
        count = stage.run.epoch if is_whole else stage.run.attempt
        if count >= self.rules.retries:
            what = "the job was begun" if is_whole else "it was computed"
            self._give_up(stage, f"after {what} again {count} times")
        elif is_whole:
            self._restart(stage.run.epoch + 1)
        else:
            stage.begin(Run(stage.run.epoch, stage.run.attempt + 1))
        self._weigh_all(now)

    def _give_up(self, stage: StageVotes, when: str) -> None:
        numbers = stage.undecided[:SHOWN]
        if not numbers:
            self._fail(
                f"stage {stage.name}: no good copy is left of slice {min(stage.open)} {when}; see "
                "who else can write to the storage"
            )
            return
        told = "; ".join(stage.describe(number, self.quorum.numbers) for number in numbers)
        self._fail(
            f"stage {stage.name}: {self.quorum.needed} of {self.quorum.replicas} replicas must "
            f"agree, and do not {when}: {told}. Take the replicas that are wrong off their hosts; "
            "if all differ, the stage is not deterministic"
        )

    def _restart(self, epoch: int) -> None:
        for stage in self._stages.values():
            stage.forget(Run(epoch))
        for name in self.plan.stages:
            self._bind(name)

    def _fail_undecidable(self, report: Report, text: str) -> None:
        self._fail(
            f"stage {report.stage}, slice {report.slice}: {text}, and the crash model cannot tell "
            "which is right; use byzantine, and see whether the stage is deterministic"
        )

    def _fail(self, failure: str) -> None:
        """What is done stays done: it may have been delivered."""
        if self.state is JobState.RUNNING:
            self.state = JobState.FAILED
            self.failure = f"job {self.job}: {failure}"

    def _unfinished(self) -> str:
        stage = next(each for each in self._stages.values() if not each.is_ok)
        told = [stage.describe(each, self.quorum.numbers) for each in sorted(stage.open)[:SHOWN]]
        return f"stage {stage.name} waits: {'; '.join(told)}"

    def _find(self, kind: Kind, report: Report, text: str) -> None:
        of = (report.replica, report.host, report.stage, report.run, report.slice)
        self._add(Finding(kind, *of, text, seq=report.seq))

    def _add(self, finding: Finding) -> None:
        self._findings.add(finding)

    @property
    def _alive(self) -> int:
        return self.quorum.replicas - len(self._gone)

    @property
    def _stalls_at(self) -> float | None:
        if self.rules.limit is None:
            return None
        # The first call of `wake` starts it.
        return 0.0 if self._news is None else self._news + self.rules.limit

    def _note_progress(self, now: float) -> None:
        """What one replica says is no progress, so that a few who talk on do not hide that the
        others are mute."""
        progress = self._outline()
        if progress != self._progress:
            self._progress = progress
            self._news = now

    def _outline(self) -> list[tuple[Run, int]]:
        """How far the stages are."""
        return [(stage.run, len(stage.open)) for stage in self._stages.values()]
