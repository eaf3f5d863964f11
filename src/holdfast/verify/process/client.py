"""Calls of replicas and the coordinator to the verifiers of a job.

With several verifiers everything is told to all. A `Witness` speaks, from drivers and from Spark's
tasks; `Verifiers` asks, and takes for an answer what enough of them say.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from holdfast.errors import RefusedError, UnreachableError, WireError
from holdfast.storage.signing import Signer
from holdfast.transport.client import LogClient, act
from holdfast.transport.security import Security
from holdfast.verify.machine import Agreed, Plan, Report, Standing, combine
from holdfast.verify.process.messages import (
    Answer,
    Asked,
    Back,
    Broken,
    Envelope,
    Gone,
    Reported,
    Started,
    Telling,
    decode,
    encode,
    seal,
    waiting_words,
)

TIMEOUT = 60.0
"""Seconds to reach enough verifiers: one that was killed is started again within."""
ATTEMPT = 2.0
"""Seconds for one call of one verifier."""
REST = 5.0
"""Seconds during which one that did not answer is not asked again, if the others are enough."""
LONGEST_WAIT = 1.0
IDLE = 20.0
"""Seconds after which somebody who has not asked has done something else; who waits asks sooner."""
FIRST_LOOK, LAST_LOOK = 0.01, 0.2
"""Seconds between two looks at whether the job stands otherwise, at first and after a while."""


@dataclass(frozen=True)
class Witness:
    """A replica, or the coordinator if `replica` is 0. It travels to tasks, so it can be pickled;
    whoever has it can speak in this replica's name."""

    job: str
    replica: int
    signer: Signer = field(repr=False)
    verifiers: tuple[str, ...]
    security: Security | None = field(default=None, repr=False)
    needed: int | None = None
    """How many must have heard it; more than half if it is not given. The others hear of it from
    them."""
    timeout: float = TIMEOUT

    def start(self, host: str) -> None:
        self._tell(Started(self.job, host))

    def report(self, report: Report) -> None:
        """Returns when enough verifiers have it on disk. Raises UnreachableError or RefusedError if
        that cannot be."""
        self._tell(Reported(report))

    def broken(self, stage: str, number: int, maker: int) -> None:
        """The maker's copy of a slice does not have the digest that it reported."""
        self._tell(Broken(self.job, stage, number, maker, time.time_ns()))

    def gone(self, replica: int, number: int, over_quota: str = "") -> None:
        """For the coordinator: the process of a replica has ended. `number`: which of its words
        this is; said again with the same one, it is the same word. `over_quota`: see `Gone`."""
        self._tell(Gone(self.job, replica, number, over_quota))

    def back(self, replica: int, number: int, hosts: tuple[str, ...] = ()) -> None:
        """For the coordinator: a replica is started again, or elsewhere. `hosts`: see `Back`."""
        self._tell(Back(self.job, replica, number, hosts))

    def shows_itself(self) -> tuple[int, bytes]:
        """For `Asked`."""
        return self.replica, self.signer.sign(waiting_words(self.job))

    def _tell(self, telling: Telling) -> None:
        envelope = seal(self.replica, telling, self.signer)
        needed = self.needed or len(self.verifiers) // 2 + 1
        waiting = list(self.verifiers)
        refusals: list[str] = []
        told = 0
        look = FIRST_LOOK
        end = time.monotonic() + self.timeout
        while True:
            late: list[WireError] = []
            for address, refusal in self._tell_all(waiting, envelope, needed - told):
                if isinstance(refusal, WireError):
                    # Whatever it is that keeps it from answering may pass.
                    late.append(refusal)
                    continue
                waiting.remove(address)
                if refusal:
                    refusals.append(f"{address}: {refusal}")
                else:
                    told += 1
            if told >= needed:
                return
            if told + len(waiting) < needed:
                raise RefusedError(refusals[0])
            if time.monotonic() > end:
                raise UnreachableError(str(late[0])) from late[0]
            time.sleep(look)
            look = min(LAST_LOOK, 2 * look)

    def _tell_all(
        self, addresses: Sequence[str], envelope: Envelope, needed: int
    ) -> list[tuple[str, str | WireError]]:
        """What they answer, as soon as so many have taken it. They are told at once, for one that
        is cut off takes as long as an attempt may; who is late may still hear of it."""
        if len(addresses) == 1:
            return [(addresses[0], self._tell_one(addresses[0], envelope))]
        found: list[tuple[str, str | WireError]] = []
        pool = ThreadPoolExecutor(len(addresses), thread_name_prefix="holdfast tell")
        calls = {pool.submit(self._tell_one, each, envelope): each for each in addresses}
        for call in as_completed(calls):
            found.append((calls[call], call.result()))
            if sum(refusal == "" for _, refusal in found) >= needed:
                break
        pool.shutdown(wait=False)
        return found

    def _tell_one(self, address: str, envelope: Envelope) -> str | WireError:
        """Why it was refused; empty if it was not; or the error by which it does not answer."""
        try:
            answer = act(address, self.security, "tell", encode([envelope]), timeout=ATTEMPT)
            return "".join(decode(answer, list[str]))
        except WireError as error:
            return error


class Pauses:
    """Seconds between two questions for news, so that whatever verifiers answer nobody asks without
    rest. Longer and longer as long as there is nothing new and no verifier lets the caller wait."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """`draw`: a number within 0 and 1."""
        self._draw = draw
        self._vain = 0

    def after(self, waited: float, *, is_new: bool) -> float:
        """Seconds to rest after a question that was answered after so many."""
        if waited >= LAST_LOOK:
            self._vain = 0
            return 0.0
        self._vain = 0 if is_new else self._vain + 1
        longest = min(LAST_LOOK, FIRST_LOOK * 2 ** min(self._vain, 10))
        return max(0.0, longest * (1 + self._draw()) / 2 - waited)


@dataclass(slots=True)
class _Heard:
    """What one verifier has said last."""

    client: LogClient
    version: int = -1
    standing: Standing | None = None
    rests_until: float = 0.0
    silent_since: float | None = None
    """When it was first asked in vain; None if it answered last."""


class Verifiers:
    """All verifiers that somebody asks, as one. One thread at a time. A context manager."""

    def __init__(
        self,
        plan: Plan,
        retries: int,
        addresses: Sequence[str],
        security: Security | None = None,
        *,
        needed: int | None = None,
        timeout: float = TIMEOUT,
        witness: Witness | None = None,
    ) -> None:
        """`needed`: how many must say the same; more than half if it is not given. `witness`: who
        asks; it has places of its own to wait for news."""
        shown: tuple[int | None, bytes] = (None, b"")
        self._caller, self._proof = shown if witness is None else witness.shows_itself()
        self._pauses = Pauses()
        self._plan = plan
        self._retries = retries
        self._needed = needed or len(addresses) // 2 + 1
        self._timeout = timeout
        self._heard = [
            _Heard(LogClient(address, security, timeout=ATTEMPT)) for address in addresses
        ]
        self._turn = 0
        self._unanswered: float | None = None
        """Since when too few have answered; None if enough did last."""
        self._last_asked = -math.inf
        self.answered: float | None = None
        """When enough of them answered last, by the monotonic clock as it was before they were
        asked."""
        self._said: tuple[list[Standing | None], Standing] | None = None

    def consult(self) -> Standing:
        """How the job stands. What a verifier said stays true for a while if it does not answer;
        raises UnreachableError if too few have answered for as long as the timeout says."""
        look = FIRST_LOOK
        while True:
            asked = time.monotonic()
            if asked > self._last_asked + IDLE:
                # It has computed meanwhile, and does not know how long nobody has answered.
                self._unanswered = None
            self._last_asked = asked
            errors = self._ask_all()
            if len(self._heard) - len(errors) >= self._needed:
                self.answered, self._unanswered = asked, None
            elif self._unanswered is None:
                self._unanswered = asked
            elif time.monotonic() > self._unanswered + self._timeout:
                raise UnreachableError(str(errors[0])) from errors[0]
            heard = [each.standing for each in self._heard]
            if sum(each is not None for each in heard) >= self._needed:
                return self._combined(heard)
            time.sleep(look)
            look = min(LAST_LOOK, 2 * look)

    def has_answered(self, at: int) -> bool:
        """Whether a verifier ever did. `at`: its place among the addresses."""
        return self._heard[at].standing is not None

    def silent_since(self, at: int) -> float | None:
        """Since when a verifier was asked in vain, by the monotonic clock; None if it answered
        when it was last asked. `at`: its place among the addresses."""
        return self._heard[at].silent_since

    def wait(self, known: Standing) -> None:
        """Until the job may stand otherwise than was known."""
        if self.consult() == known:
            self.await_news(LONGEST_WAIT)

    def await_news(self, seconds: float) -> None:
        """Return when a verifier has something new to say, and after so many seconds at last.

        Another one is asked each time, so that none that is mute or slow hides what others know."""
        now = time.monotonic()
        awake = [each for each in self._heard if each.standing and each.rests_until <= now]
        if not awake:
            time.sleep(min(seconds, LAST_LOOK))
            return
        self._turn += 1
        heard = awake[self._turn % len(awake)]
        asked = Asked(heard.version, seconds, self._caller, self._proof)
        answer = self._call(heard, "consult", asked, Answer, longer=seconds)
        is_new = isinstance(answer, Answer) and answer.standing is not None
        self._take(heard, answer)
        time.sleep(self._pauses.after(time.monotonic() - now, is_new=is_new))

    def chunk(self, stage: str, number: int, seq: int) -> Agreed | None:
        """What was agreed upon of a chunk; None as long as too few say so."""
        said: Counter[tuple[bytes, int]] = Counter()
        found: dict[tuple[bytes, int], Agreed] = {}
        for each in self._heard:
            agreed = self._call(each, "chunk", (stage, number, seq), Agreed | None)
            if isinstance(agreed, Agreed):
                said[agreed.digest, agreed.rows] += 1
                found[agreed.digest, agreed.rows] = agreed
        most = said.most_common(1)
        return found[most[0][0]] if most and most[0][1] >= self._needed else None

    def raw_chunk(self, stage: str, number: int, seq: int) -> bytes | None:
        """A chunk that was agreed upon itself; None as long as nothing is, or if nobody has told it
        raw. One verifier may hand it out: it is hashed here."""
        agreed = self.chunk(stage, number, seq)
        if agreed is None:
            return None
        for each in self._heard:
            data = self._call(each, "raw-chunk", (stage, number, seq), bytes | None)
            if isinstance(data, bytes) and sha256(data).digest() == agreed.digest:
                return data
        return None

    def close(self) -> None:
        for each in self._heard:
            each.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask_all(self) -> list[WireError]:
        errors = []
        for each in self._heard:
            answer = self._call(each, "consult", Asked(each.version), Answer)
            if isinstance(answer, WireError):
                errors.append(answer)
            self._take(each, answer)
        return errors

    def _take(self, heard: _Heard, answer: Answer | WireError) -> None:
        if isinstance(answer, Answer) and answer.standing is not None:
            heard.version, heard.standing = answer.version, answer.standing

    def _call(self, heard: _Heard, name: str, asked: Any, form: Any, *, longer: float = 0.0) -> Any:
        """What one verifier answers, or the error by which it does not."""
        now = time.monotonic()
        others = sum(each.rests_until <= now for each in self._heard if each is not heard)
        if heard.rests_until > now and others >= self._needed:
            return UnreachableError(f"{heard.client.address}: does not answer; asked again later")
        try:
            answer = decode(heard.client.act(name, encode(asked), longer=longer), form)
        except WireError as error:
            heard.rests_until = time.monotonic() + REST
            if heard.silent_since is None:
                heard.silent_since = now
            return error
        heard.rests_until, heard.silent_since = 0.0, None
        return answer

    def _combined(self, heard: list[Standing | None]) -> Standing:
        """The same object as long as nobody says anything new."""
        if self._said is None or any(
            new is not old for new, old in zip(heard, self._said[0], strict=True)
        ):
            standing = combine(self._plan, self._retries, heard, self._needed)
            self._said = heard, standing
        return self._said[1]
