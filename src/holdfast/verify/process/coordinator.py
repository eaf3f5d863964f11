"""The coordinator: starts verifiers and replicas of a job, watches them, delivers its result.

The coordinator decides nothing about results: that do the verifiers. It tells them whose process
has ended, starts again what can be started again, and hashes whatever it delivers.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import Final, Self

import pyarrow.parquet as pq

from holdfast.errors import (
    REFUSED,
    HoldfastError,
    StoreCorruptError,
    StoreUnavailableError,
    UnreachableError,
)
from holdfast.verify.machine import Doubt, JobState, Model, Standing, basis_of
from holdfast.verify.process.admission import Admission
from holdfast.verify.process.boundaries import Target, target_of
from holdfast.verify.process.config import Pool
from holdfast.verify.process.delivery import Receipt, UndeliverableError, deliver, digest_of_receipt
from holdfast.verify.process.pinned_files import CHANGED, ChangedFileError, has_changed
from holdfast.verify.process.placement import Placement
from holdfast.verify.process.processes import Launcher, Running
from holdfast.verify.process.progress import (
    AgreedUpon,
    Began,
    Delivering,
    Dissented,
    Ended,
    Failed,
    Log,
    Moved,
    Noted,
    Progress,
    Started,
    Ticked,
    VerifierStarted,
    Writing,
    Written,
)
from holdfast.verify.process.quota import MOST_FILES, clear, room_taken
from holdfast.verify.process.report import Account, hosts_of
from holdfast.verify.process.slice_files import is_broken
from holdfast.verify.process.submission import Submission
from holdfast.verify.process.writing import is_once, write_staged

EVERY: Final = 0.1
"""Seconds between two looks, as long as no verifier answers."""
NEWS: Final = 2.0
"""Seconds between two looks otherwise, if verifiers have nothing new to say. So long may it take
until an end of a process is noticed; more looks would take from the cores that replicas have."""
ANSWER: Final = 2.0
"""Seconds for verifiers to answer; after that it looks whether they run."""
GRACE: Final = 5.0
"""Seconds after which a replica that has ended well should not have, if the verifiers say then that
the job is not done."""
PATIENCE: Final = 10.0
"""Seconds for processes to end when they are asked to."""
VERIFIER_STARTS: Final = 20
VAIN_STARTS: Final = 3
"""Of a verifier that never came to answer."""
PAUSE: Final = 0.5
"""Seconds before a verifier is started again that answered; twice as long after each vain start."""
LONGEST_PAUSE: Final = 30.0
TICK: Final = 30.0
"""Seconds between two entries in the journal, if nothing else is written: so long may replicas of a
killed coordinator have run beyond what the account says."""
LIFE: Final = 1 << 32
"""The first number of the words in the second life. It goes up with each life, so that verifiers
take no word of an earlier one for a new one."""
ROOM: Final = 2.0
"""Seconds between two looks at how much replicas have written."""
HUNG: Final = 20.0
"""Seconds without an answer after which a verifier that runs is ended and started again; more than
one needs on a busy machine. It goes on from its journal."""

logger = logging.getLogger("holdfast")


@dataclass
class Member:
    """A replica as the coordinator sees it."""

    number: int
    running: Running | None = None
    pools: list[Pool] = field(default_factory=list)
    """Where it was started, one after the other."""
    failures: int = 0
    ended: float | None = None
    """Since when it has ended."""
    code: int | None = None
    over_quota: str = ""
    """How much it took of the storage, if it was ended for that and nobody has heard of it."""
    is_gone: bool = False
    """The verifiers were told that it has ended."""
    is_lost: bool = False
    """It is not started again."""
    times: list[tuple[float, float | None]] = field(default_factory=list)
    """From when until when it ran, each time that it was started."""
    spent: float = 0.0
    """Seconds that it ran under coordinators that were killed."""

    def start_clock(self, now: float) -> None:
        self.stop_clock(now)
        self.times.append((now, None))

    def stop_clock(self, now: float) -> None:
        if self.times and self.times[-1][1] is None:
            self.times[-1] = (self.times[-1][0], now)

    def seconds(self, now: float) -> float:
        """How long it ran, all times together."""
        ran = sum((now if end is None else end) - begin for begin, end in self.times)
        return self.spent + ran


@dataclass
class _Verifier:
    running: Running
    alive: float
    """When it was started, or has shown since that it starts."""
    starts: int = 1
    vain: int = 0
    """Starts since it answered last."""
    due: float = 0.0
    has_answered: bool = False
    """Since it was started."""
    said: str = ""
    """The last of its log, until then."""


def delivered(progress: Progress, output: Path) -> Delivering | None:
    """How the result was delivered that lies there; None if another or no folder does."""
    try:
        there = output.stat()
    except OSError:
        return None
    known = (there.st_dev, there.st_ino, there.st_mtime_ns)
    made = (each for each in progress.deliveries)
    return next((e for e in made if (e.device, e.inode, e.modified) == known), None)


class Coordinator:
    """Of one submission. A context manager: it leaves no process behind."""

    def __init__(
        self,
        submission: Submission,
        placement: Placement,
        launcher: Launcher,
        output: Path,
        *,
        admission: Admission | None = None,
        log: Log | None = None,
    ) -> None:
        """`log`: the journal of the submission; one of an earlier coordinator to go on from."""
        self.submission = submission
        self.placement = placement
        self._log = log or Log(submission.folder)
        self._is_log_ours = log is None
        # Before replicas are moved to where they were: verifiers read their journals by its rules.
        self._charter = submission.charter(placement)
        self.members = {number: self._member(number) for number in submission.quorum.numbers}
        self.standing: Standing | None = None
        """How the job stood when it was last asked for."""
        self._launcher = launcher
        self._output = output
        self._admission = admission
        self._verifiers: dict[int, _Verifier] = {}
        self._asked = submission.verifiers(ANSWER)
        self._witness = submission.witness(ANSWER)
        self._untold: deque[Callable[[], None]] = deque()
        """What the verifiers are to hear, in order, and what is to be done when they have."""
        self._words = count(1 + LIFE * self._log.progress.lives)
        """Of this coordinator on its replicas."""
        self._begun = time.monotonic()
        self._noted = self._begun
        """When something was written to the journal last."""
        self._waits_to_go_on = False
        """Whether this is a later life, and the verifiers have not said yet how the job stands."""
        self.is_over = False
        """Whether the job has come to its end: it would end the same way if it went on."""
        self._seconds: float | None = None
        """Until the result was there, or was given up."""
        self._rows: int | None = None
        """Of the result, when it is delivered."""
        self._room_due = 0.0
        self._is_reopened = False
        """Whether the job was done, and of its result no good copy was left."""
        self._resolved: set[Doubt] = set()
        self._refused: dict[int, str] = {}
        """What replicas said of writes that were refused."""
        self._checked: set[str] = set()
        """Stages that were seen to be agreed upon, in this life."""

    def run(self, show: Callable[[Coordinator], None], ending: Event | None = None) -> Account:
        """Until the result is delivered or cannot be had; the account says why not. `show` is
        called again and again. When `ending` is set, the job is given up."""
        ending = ending or Event()
        submission = self.submission
        self._charter.write(submission.charter_path)
        self._note(Began())
        for number in range(1, len(submission.addresses) + 1):
            running = self._launcher.start_verifier(number)
            self._verifiers[number] = _Verifier(running, time.monotonic())
        self._waits_to_go_on = self._log.progress.lives > 1
        if not self._waits_to_go_on:
            for member in self.members.values():
                self._start(member)
        failure = None
        try:
            while failure is None and not self._look():
                show(self)
                failure = self._failure()
                self.is_over = failure is not None
                if ending.is_set() and failure is None:
                    failure = "it was ended before its end"
                self._pause(ending)
            self._seconds = time.monotonic() - self._begun
            if failure is None:
                self.is_over = True
                self._linger(show, ending)
        except HoldfastError as error:
            failure = str(error)
        show(self)
        return self.account(failure)

    def close(self) -> None:
        running = [member.running for member in self.members.values() if member.running]
        running += [verifier.running for verifier in self._verifiers.values()]
        for each in running:
            each.ask_to_end()
        end = time.monotonic() + PATIENCE
        for each in running:
            each.end(end - time.monotonic())
        self._asked.close()
        if self._is_log_ours:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self) -> bool:
        """See who has ended and how the job stands; True when its result is delivered."""
        self._keep_verifiers()
        for member in self.members.values():
            self._notice_end(member)
        self._check_room()
        self._consult()
        if time.monotonic() >= self._noted + TICK:
            self._note(Ticked(self._now))
        if self.standing is None or self.standing.state is JobState.FAILED:
            return False
        self._note_agreed(self.standing)
        if self._waits_to_go_on:
            self._waits_to_go_on = False
            self._go_on()
        if self.standing.state is JobState.RUNNING:
            self._move_dissenters(self.standing)
        self._tell_ends()
        if self.standing.state is JobState.RUNNING:
            self._start_again()
        is_done = self.standing.state is JobState.DONE and not self._refusal
        return is_done and self._deliver(self.standing)

    def _note(self, *events: Noted) -> None:
        self._log.note(*events)
        self._noted = time.monotonic()

    @property
    def _now(self) -> float:
        """Seconds since this life began."""
        return time.monotonic() - self._begun

    def _note_agreed(self, standing: Standing) -> None:
        """Remember what was agreed upon. It can be nothing else later, unless somebody has changed
        the verifiers' journals, or they have lost them."""
        known = self._log.progress.agreed
        for stage, verdict in standing.verdicts.items():
            if not verdict.is_ok or stage in self._checked:
                continue
            self._checked.add(stage)
            digest = basis_of({stage: verdict.digests(self.submission.plan.slices)})
            if stage not in known:
                self._note(AgreedUpon(self._now, stage, digest))
            elif known[stage] != digest:
                raise StoreCorruptError(
                    f"stage {stage}: the verifiers agree on something else than before the "
                    "coordinator was started again; see who has changed their journals, and begin "
                    "anew with --fresh"
                )

    def _consult(self) -> None:
        """What cannot be told or asked now is told and asked later."""
        try:
            while self._untold:
                self._untold[0]()
                self._untold.popleft()
        except UnreachableError as error:
            logger.debug("%s", error)
        try:
            # Whatever was told: who does not answer for long is started again.
            self.standing = self._asked.consult()
        except UnreachableError as error:
            logger.debug("%s", error)
        else:
            self._resolve_doubts(self.standing)

    def _pause(self, ending: Event) -> None:
        """Until there may be something to see."""
        if self.standing is None or self._untold:
            ending.wait(EVERY)
        else:
            self._asked.await_news(NEWS)

    def _resolve_doubts(self, standing: Standing) -> None:
        """Hash copies of which too few to be believed say that they are broken."""
        for doubt in set(standing.doubts) - self._resolved:
            self._resolved.add(doubt)
            agreed = standing.verdicts[doubt.stage].slices.get(doubt.slice)
            storage = self.submission.reads
            if agreed and is_broken(storage, agreed.digest, agreed.rows, doubt.holder):
                told = (doubt.stage, doubt.slice, doubt.holder.replica)
                self._untold.append(partial(self._witness.broken, *told))

    def _keep_verifiers(self) -> None:
        """Start those again that have ended or hang. As long as enough of them answer, one that
        cannot be started ends nothing: its host may be cut off for a while."""
        now = time.monotonic()
        hopeless = [number for number in self._verifiers if self._is_hopeless(number)]
        if len(self._verifiers) - len(hopeless) < self.submission.verifiers_needed:
            number = hopeless[0]
            said = self._launcher.last_words_of_verifier(number).splitlines()
            raise StoreUnavailableError(
                f"verifier {number} has ended {self._verifiers[number].starts} times and said "
                f"last: {said[-1] if said else 'nothing'}; mend that, and give the same command "
                "again"
            )
        for number, verifier in self._verifiers.items():
            silent = self._asked.silent_since(number - 1)
            answers = silent is None and self._asked.has_answered(number - 1)
            if answers:
                verifier.vain = 0
            if verifier.running.poll() is None:
                verifier.due = now + min(PAUSE * 2**verifier.vain, LONGEST_PAUSE)
                self._note_life(number, verifier, silent, now)
                if silent is not None and now > max(silent, verifier.alive) + HUNG:
                    logger.warning("verifier %d does not answer: it is started again", number)
                    verifier.running.end(0)
            elif not answers and now >= verifier.due:
                # What launched it elsewhere may have ended alone.
                verifier.running.end(0)
                self._note(VerifierStarted(self._now, number))
                verifier.running = self._launcher.start_verifier(number)
                verifier.alive = now
                verifier.has_answered = False
                verifier.starts += 1
                verifier.vain += 1

    def _is_hopeless(self, number: int) -> bool:
        """One that was killed goes on. One that never came to answer hardly does next time."""
        verifier = self._verifiers[number]
        code = verifier.running.poll()
        if code is None:
            return False
        has_answered = self._asked.has_answered(number - 1)
        is_vain = code > 0 and verifier.starts >= VAIN_STARTS and not has_answered
        return is_vain or verifier.starts >= VERIFIER_STARTS

    def _note_life(
        self, number: int, verifier: _Verifier, silent: float | None, now: float
    ) -> None:
        """As long as it reads its journal it answers nobody, and says how far it is."""
        verifier.has_answered |= silent is None
        if verifier.has_answered:
            return
        said = self._launcher.last_words_of_verifier(number)
        if said != verifier.said:
            verifier.said, verifier.alive = said, now

    # Replicas that end.

    def _member(self, number: int) -> Member:
        """As it was when the coordinator was killed, if it was."""
        past = self._log.progress.replica(number)
        known = self.placement.known
        if past.pool:
            self.placement.move(number, known[past.pool])
        return Member(
            number,
            pools=[known[name] for name in past.pools],
            failures=past.failures,
            is_lost=past.is_lost,
            spent=self._log.progress.ran(number),
        )

    def _go_on(self) -> None:
        """Start the replicas again that ran when the coordinator was killed. They compute what is
        not agreed upon."""
        for member in self.members.values():
            if member.is_lost:
                continue
            if self._log.progress.replica(member.number).code:
                told = (member.number, next(self._words))
                self._untold.append(partial(self._witness.gone, *told))
            self._start_there(member)

    def _start(self, member: Member) -> None:
        pool = self.placement[member.number]
        self._note(Started(self._now, member.number, pool.name))
        member.pools.append(pool)
        member.ended = member.code = None
        member.start_clock(time.monotonic())
        member.running = self._launcher.start_replica(member.number, pool)

    def _check_room(self) -> None:
        """End those that take more of the storage than they may, before others have none."""
        now = time.monotonic()
        if now < self._room_due:
            return
        self._room_due = now + ROOM
        quota = self.submission.quota
        for member in self.members.values():
            if member.running is None:
                continue
            part = self.submission.part_of(member.number, member.pools[-1])
            size, count = room_taken([part, self.submission.replica_folder(member.number)])
            if size <= quota and count <= MOST_FILES:
                continue
            member.over_quota = (
                f"took {size >> 20:,} MiB in {count:,} files, and may take {quota >> 20:,} MiB in "
                f"{MOST_FILES:,} (`quota`); what was not agreed upon of it was removed"
            )
            logger.warning("replica %d: %s", member.number, member.over_quota)
            member.running.end(0)
            clear(part, self._agreed_files(member.number))
            self._notice_end(member)

    def _agreed_files(self, replica: int) -> set[Path]:
        """Of a replica, those that others may read."""
        verdicts = {} if self.standing is None else self.standing.verdicts
        return {
            self.submission.reads.of(holder) / holder.path
            for verdict in verdicts.values()
            for agreed in verdict.slices.values()
            for holder in agreed.holders
            if holder.replica == replica
        }

    def _notice_end(self, member: Member) -> None:
        if member.running is None or (code := member.running.poll()) is None:
            return
        member.running.end(0)
        member.running = None
        member.ended, member.code = time.monotonic(), code
        member.stop_clock(member.ended)
        self._note(Ended(self._now, member.number, code))
        if code == 0 or (self.standing is not None and self.standing.state is JobState.FAILED):
            logger.info("replica %d has ended with %d", member.number, code)
            return
        said = self._launcher.last_words(member.number).splitlines() or ["it said nothing"]
        logger.warning("replica %d has ended with %d: %s", member.number, code, said[-1])
        if code == CHANGED:
            self._check_sources()
        if code == REFUSED:
            self._refused[member.number] = said[-1]

    @property
    def _refusal(self) -> str:
        """What the code writes by itself, if more replicas say the same than may be wrong."""
        quorum = self.submission.quorum
        liars = 0 if quorum.model is Model.CRASH else quorum.faults
        found = Counter(self._refused.values()).most_common(1)
        return next((said for said, times in found if times > liars), "")

    @property
    def _late_failure(self) -> str:
        """How the code failed when all was agreed upon, if more replicas did than may be wrong."""
        said = {
            number: (self._launcher.last_words(number).splitlines() or ["it said nothing"])[-1]
            for number, member in self.members.items()
            # Not by a signal, and not before: it was started again then.
            if (member.code or 0) > 0 and member.code != REFUSED and not member.is_lost
        }
        if len(said) <= self.submission.quorum.faults:
            return ""
        ((words, _),) = Counter(said.values()).most_common(1)
        return (
            f"replicas {', '.join(map(str, said))} ended with an error after the last boundary: "
            f"{words}; mend that, or take it out of the job's code"
        )

    def _check_sources(self) -> None:
        """End the job if a source was changed: no replica can read what it is to read. On the word
        of a replica alone nothing is ended."""
        for source, files in self.submission.sources.items():
            for file in files:
                if has_changed(file):
                    raise ChangedFileError(
                        f"source {source}: {file.path} was changed after the job was submitted; "
                        "leave files alone while a job runs, let replicas have no right to write "
                        "to them, and submit the job again"
                    )

    def _move_dissenters(self, standing: Standing) -> None:
        """Where too few agreed, let those who differ try on other hosts, if there are any. The
        verifiers go on to expect their votes."""
        found = {
            (finding.stage, finding.run, each): None
            for finding in standing.findings
            for each in finding.dissenters
        }
        new = [each for each in found if each not in self._log.progress.dissents]
        if not new:
            return
        named = [self.members[each[-1]] for each in new]
        self._note(*(Dissented(self._now, *each) for each in new))
        # If there are few spare hosts, those have their turn who have not had it yet.
        for member in sorted(named, key=lambda member: len(member.pools)):
            if member.running is not None and self._move(member.number):
                member.running.ask_to_end()
                member.running.end(ANSWER)
                member.running = None
                self._start_there(member)

    def _tell_ends(self) -> None:
        """Whose processes have ended although the job is not done, or not well."""
        is_running = self.standing is not None and self.standing.state is JobState.RUNNING
        answered = self._asked.answered if is_running else None
        for member in self.members.values():
            if member.ended is None or member.is_gone:
                continue
            if member.code != 0 or (answered is not None and answered >= member.ended + GRACE):
                member.is_gone = True
                told = (member.number, next(self._words), member.over_quota)
                self._untold.append(partial(self._witness.gone, *told))
                member.over_quota = ""

    def _start_again(self) -> None:
        """When the verifiers know of every end: what is heard of an end after the next start would
        be laid to the host of that one."""
        if self._untold:
            return
        for member in self.members.values():
            if member.is_gone and not member.is_lost:
                self._try_again(member)
            elif self._is_reopened and member.code == 0 and not member.is_gone:
                # It was right to end when the job was done; now there is more to do.
                self._start(member)

    def _try_again(self, member: Member) -> None:
        member.failures += 1
        member.is_lost = member.failures > self.submission.config.restarts
        self._note(Failed(self._now, member.number, member.is_lost))
        if member.is_lost:
            return
        member.is_gone = False
        self._move(member.number)
        self._start_there(member)

    def _start_there(self, member: Member) -> None:
        """When the verifiers know where: what comes from elsewhere does not count."""
        member.ended = member.code = None
        pools = (*member.pools, self.placement[member.number])
        hosts = (
            ()
            if self.placement.warning
            else tuple({host: None for pool in pools for host in self.placement.hosts_of(pool)})
        )
        told = (member.number, next(self._words), hosts)
        self._untold.append(partial(self._witness.back, *told))
        self._untold.append(partial(self._start_if_needed, member))

    def _start_if_needed(self, member: Member) -> None:
        """A host where it cannot be started is as one where it has ended."""
        if self.standing is not None and self.standing.state is not JobState.RUNNING:
            # As one that has ended well: it is started if there turns out to be more to do.
            member.ended, member.code = time.monotonic(), 0
            return
        try:
            self._start(member)
        except (HoldfastError, OSError) as error:
            logger.warning("replica %d cannot be started: %s", member.number, error)
            member.ended, member.code = time.monotonic(), 1
            member.stop_clock(member.ended)

    def _move(self, replica: int) -> bool:
        """To hosts that nobody has, if there are any and they have room."""
        pool = self.placement.next_pool(replica)
        if pool == self.placement[replica]:
            return False
        pools = {**self.placement.pools(), replica: pool}
        if self._admission is not None and not self._admission.move(pools):
            return False
        self._note(Moved(self._now, replica, pool.name))
        self.placement.move(replica, pool)
        return True

    def _failure(self) -> str | None:
        """Why there will be no result; None as long as there may be one."""
        if self.standing is not None and self.standing.state is JobState.FAILED:
            return self.standing.failure
        if self._refusal:
            return self._refusal
        lost = [member.number for member in self.members.values() if member.is_lost]
        quorum = self.submission.quorum
        if quorum.replicas - len(lost) >= quorum.needed:
            return None
        said = "\n".join(
            f"replica {number} said last:\n{self._launcher.last_words(number)}" for number in lost
        )
        return (
            f"replicas {', '.join(map(str, lost))} ended again and again, and {quorum.needed} of "
            f"{quorum.replicas} must agree; mend what they say, and submit the job again\n{said}"
        )

    # The result.

    def _deliver(self, standing: Standing) -> bool:
        submission = self.submission
        if (done := delivered(self._log.progress, self._output)) is not None:
            self._rows = done.rows
            return True
        bad: list[tuple[str, int, int]] = []
        is_delivered = True
        try:
            self._rows = deliver(
                submission.plan,
                standing,
                submission.reads,
                self._output,
                lambda stage, number, maker: bad.append((stage, number, maker)),
                job=submission.name,
                staged=self._finish_part,
                ready=self._note_delivery,
            )
        except UndeliverableError as error:
            logger.warning("%s", error)
            is_delivered = False
        finally:
            self._untold += [partial(self._witness.broken, *copy) for copy in bad]
        self._consult()
        self._is_reopened |= not is_delivered
        return is_delivered

    def _finish_part(self, part: Path) -> None:
        """Before the result gets its name."""
        self._write(part)
        account = self.account(None)
        Receipt(
            submission=account.submission,
            job=account.job,
            arguments=account.arguments,
            pinned=account.pinned,
            pins=account.pins,
            stages=account.stages,
            written=account.written,
        ).write(part)

    def _write(self, part: Path) -> None:
        """Let what the program writes be written from here, and be no part of the output."""
        for name in self.submission.writes:
            places = part / name, part / target_of(name)
            (row,) = pq.read_table(places[1]).to_pylist()
            target = Target.decode(row["target"])
            is_done = self._log.progress.writes.get(name)
            if is_done is False and not is_once(target):
                raise StoreUnavailableError(
                    f"verified_write {name}: the coordinator was killed while it wrote to "
                    f"{target}, and nobody knows how far it came; see what is there, and submit "
                    "the job again with --fresh"
                )
            if not is_done:
                self._note(Writing(self._now, name))
                write_staged(places[0], target, f"{self.submission.name}.{name}", self._settings)
                self._note(Written(self._now, name, str(target)))
            for place in places:
                shutil.rmtree(place)

    @property
    def _settings(self) -> dict[str, str]:
        """Of a Spark session of this process."""
        spark = self.submission.config.spark
        return {name: value for name, value in spark.items() if name != "spark.master"}

    def _note_delivery(self, rows: int, folder: os.stat_result) -> None:
        known = (folder.st_dev, folder.st_ino, folder.st_mtime_ns)
        self._note(Delivering(self._now, rows, *known))

    def _linger(self, show: Callable[[Coordinator], None], ending: Event) -> None:
        """Let replicas come to their end, so that what they report late is judged too."""
        end = time.monotonic() + self.submission.config.linger
        while True:
            for member in self.members.values():
                self._notice_end(member)
            self._tell_ends()
            self._consult()
            is_over = not self._untold and not any(each.running for each in self.members.values())
            if is_over or time.monotonic() >= end or ending.is_set():
                return
            show(self)
            self._pause(ending)

    def account(self, failure: str | None) -> Account:
        """What is known now. What fails after the result was delivered is only warned of."""
        submission, quorum = self.submission, self.submission.quorum
        standing = self.standing
        now = time.monotonic()
        is_verified = self._rows is not None
        shared = submission.sharing(self.placement)
        warnings = [self.placement.warning, shared, failure if is_verified and failure else ""]
        return Account(
            submission=submission.name,
            job=submission.job,
            model=quorum.model,
            faults=quorum.faults,
            replicas=quorum.replicas,
            needed=quorum.needed,
            mode=submission.config.mode,
            is_verified=is_verified,
            refused=(self._refusal or self._late_failure) if is_verified else "",
            failure="" if is_verified else failure or "",
            output=self._output if is_verified else None,
            rows=self._rows or 0,
            seconds=self._log.progress.seconds + (self._seconds or now - self._begun),
            lives=max(1, self._log.progress.lives),
            runs={} if standing is None else {n: v.run for n, v in standing.verdicts.items()},
            findings=() if standing is None else standing.findings,
            pools={n: tuple(p.name for p in each.pools) for n, each in self.members.items()},
            hosts={} if standing is None else hosts_of(standing),
            verifier_starts=self._log.progress.verifier_starts,
            replica_seconds=sum(each.seconds(now) for each in self.members.values()),
            price=submission.config.price,
            cut={n: cut for n in self.members if (cut := self._launcher.cut(n))},
            warning="; ".join(filter(None, warnings)),
            folder=submission.folder,
            arguments=submission.arguments,
            written=dict(self._log.progress.written),
            receipt=digest_of_receipt(self._output) if is_verified else "",
            pinned=submission.pins,
            pins=submission.plan.pins.hex(),
            stages={}
            if standing is None
            else {
                name: tuple(agreed.digest.hex() for _, agreed in sorted(verdict.slices.items()))
                for name, verdict in standing.verdicts.items()
            },
        )
