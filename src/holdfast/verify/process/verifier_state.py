"""Durable state of a verifier: every word is checked and journaled before the answer.

Used by the server, one thread at a time. Its clock does not go on while it is down, so that nobody
is late who could not be heard.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import msgspec

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.storage.journal import Journal
from holdfast.storage.signing import is_signed
from holdfast.verify.machine import COORDINATOR, Agreed, Standing, Verifier
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.messages import (
    Back,
    Broken,
    Envelope,
    Gone,
    Reported,
    Started,
    Telling,
    open_envelope,
)

SAYS: Final = 2.0
"""Seconds between two words on how far it is, while it reads its journal."""

logger = logging.getLogger("holdfast")


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """Entry of a verifier's journal."""

    time: float
    """By the verifier's clock."""
    envelope: Envelope | None
    """None: nothing came, and it was time to decide something."""


class ForgedError(HoldfastError):
    """Somebody says something in another's name, or what only another may say."""


class OldWordError(HoldfastError):
    """The coordinator has said this of a replica before, or something newer."""


class Register:
    """Of one job, in one folder. A context manager."""

    def __init__(
        self, charter: Charter, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.charter = charter
        self.counts: Counter[str] = Counter()
        """What was taken in (`told`), and what was known already (`known`)."""
        self.refused: Counter[str] = Counter()
        """What was not, by the error that says why."""
        self.told: list[Envelope] = []
        """All that was taken in, in order: other verifiers may want to hear of it."""
        self._journal = Journal(folder, Entry)
        self._entries = list(self._journal.found)
        self._clock = clock
        self._offset = (self._entries[-1].time if self._entries else 0.0) - clock()
        self._recall()

    @property
    def now(self) -> float:
        """Seconds that this verifier has been there, in all."""
        return self._clock() + self._offset

    @property
    def version(self) -> int:
        return self._verifier.version

    @property
    def turned(self) -> int:
        """The version by which those who wait may have something else to do."""
        return self._verifier.turned

    @property
    def next_wake(self) -> float | None:
        """By its own clock: see `now`."""
        return self._verifier.next_wake

    def standing(self) -> Standing:
        return self._verifier.standing()

    @property
    def started(self) -> dict[int, str]:
        """The hosts of the replicas that have said that they start."""
        return dict(self._verifier.started)

    def chunk(self, stage: str, number: int, seq: int) -> Agreed | None:
        return self._verifier.chunk(stage, number, seq)

    def raw_chunk(self, stage: str, number: int, seq: int) -> bytes | None:
        return self._verifier.raw_chunk(stage, number, seq)

    def tell(self, envelopes: Sequence[Envelope]) -> list[str]:
        """Take in what is new; answers for each an empty text, or why it was refused."""
        answers = []
        entries = []
        known = 0
        for envelope in envelopes:
            now = self.now
            try:
                is_new = self._take(envelope, now)
            except HoldfastError as error:
                self.refused[type(error).__name__] += 1
                answers.append(str(error))
                continue
            answers.append("")
            if is_new:
                entries.append(Entry(now, envelope))
            else:
                known += 1
        self._write(entries)
        self.counts += Counter(told=len(entries), known=known)
        return answers

    def wake(self) -> None:
        """Decide what is due."""
        now = self.now
        due = self._verifier.next_wake
        if due is not None and due <= now:
            self._verifier.wake(now)
            self._write([Entry(now, None)])

    def close(self) -> None:
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, entries: list[Entry]) -> None:
        """What is not on disk has not happened."""
        if not entries:
            return
        try:
            self._journal.append(entries)
        except BaseException:
            self._recall()
            raise
        self._entries += entries

    def _recall(self) -> None:
        """Be as the journal says."""
        self._verifier: Verifier = self.charter.verifier()
        self._known: set[bytes] = set()
        self._last_words: dict[int, int] = {}
        self.told.clear()
        said = self._clock()
        for number, entry in enumerate(self._entries):
            if self._clock() >= said + SAYS:
                # Whoever has started it sees by that that it goes on.
                said = self._clock()
                logger.info("has read %d of %d words of its journal", number, len(self._entries))
            if entry.envelope is None:
                self._verifier.wake(entry.time)
            else:
                self._apply(entry.envelope, open_envelope(entry.envelope), entry.time)

    def _take(self, envelope: Envelope, now: float) -> bool:
        """Whether anything has changed by it: what changes nothing is not kept, so that nobody can
        fill the journal by saying the same in other words. Raises a HoldfastError for what is
        refused; then nothing has changed."""
        if envelope.signature in self._known:
            return False
        key = self.charter.keys.get(envelope.sender)
        if key is None:
            raise ForgedError(f"there is no replica {envelope.sender} in job {self.charter.job}")
        if not is_signed(key, envelope.body, envelope.signature):
            raise ForgedError(f"replica {envelope.sender} has not signed this")
        telling = open_envelope(envelope)
        self._check_sender(envelope.sender, telling)
        return self._apply(envelope, telling, now)

    def _check_sender(self, sender: int, telling: Telling) -> None:
        job = telling.report.job if isinstance(telling, Reported) else telling.job
        if job != self.charter.job:
            raise InvalidArgumentError(
                f"job: this is a verifier of {self.charter.job!r}, not of {job!r}"
            )
        if isinstance(telling, Reported) and telling.report.replica != sender:
            raise ForgedError(
                f"replica {sender} reports in the name of replica {telling.report.replica}"
            )
        if isinstance(telling, Reported | Started) and sender == COORDINATOR:
            raise ForgedError("the coordinator computes nothing")
        if isinstance(telling, Gone | Back):
            if sender != COORDINATOR:
                raise ForgedError(f"replica {sender} says what only the coordinator may say")
            if telling.number <= self._last_words.get(telling.replica, 0):
                raise OldWordError("the coordinator has said this before, or something newer")

    def _apply(self, envelope: Envelope, telling: Telling, now: float) -> bool:
        match telling:
            case Reported(report):
                is_new = self._verifier.report(report, now)
            case Started(_, host):
                is_new = self._verifier.start(envelope.sender, host, now)
            case Broken(_, stage, piece, maker):
                is_new = self._verifier.broken(stage, piece, maker, envelope.sender, now)
            case Gone(_, replica, number, over_quota):
                self._verifier.gone(replica, now, over_quota=over_quota)
                self._last_words[replica] = number
                is_new = True
            case Back(_, replica, number, hosts):
                self._verifier.back(replica, hosts, now)
                self._last_words[replica] = number
                is_new = True
        if is_new:
            self._known.add(envelope.signature)
            self.told.append(envelope)
        return is_new
