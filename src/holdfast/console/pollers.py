"""Pollers of parties, and the statuses that they keep.

A party may lie or be of another version, so whatever it says is checked for its types and bounded
before anything else sees it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import HoldfastError, UnreachableError, WireError
from holdfast.transport.client import LogClient
from holdfast.transport.security import Security

MOST: Final = 1 << 20
"""Bytes of a status; that of a source with a thousand readers has a tenth."""
FIGURES: Final = (
    "stable_rows",
    "tentative_rows",
    "boundary",
    "lag_seconds",
    "clock_ahead_seconds",
    "delay_new_seconds",
    "buckets_buffered",
    "batch_seconds",
    "state_rows",
    "state_bytes",
    "log_bytes",
    "late_rows",
)
"""The numbers that are kept of each party, second by second."""

STARTING, ABSENT, ENDED, FROZEN = "STARTING", "ABSENT", "ENDED", "FROZEN"
"""Beside the states of the protocol: it is not ready, it does not answer, its process has ended, we
have stopped it."""
READING, UNKNOWN = "READING", "UNKNOWN"
"""Of a sink, which nobody can ask: somebody has a link of it, or nobody."""

SEVERITIES: Final = {
    "STABLE": 1,
    READING: 1,
    "STABILIZATION": 2,
    STARTING: 2,
    UNKNOWN: 2,
    "UP_FAILURE": 3,
    "FAILURE": 4,
    FROZEN: 4,
    ABSENT: 4,
    ENDED: 4,
}
"""How bad each state is; 0 is for times of which nothing is known."""

Name = Annotated[str, msgspec.Meta(max_length=256)]
Names = Annotated[list[Name], msgspec.Meta(max_length=4096)]
Bucket = tuple[int, Annotated[str, msgspec.Meta(max_length=256, pattern="^[admw]*$")], int]
"""When it begins, in microseconds; a letter for each replica, which agreed, dissented, is missing
or waits for others; and how often it was calculated again."""


class StatusError(HoldfastError):
    """What a party says of itself cannot be read."""


class _Votes(msgspec.Struct, frozen=True):
    """On the last buckets of one stream."""

    replicas: Annotated[list[Name], msgspec.Meta(max_length=256)]
    buckets: Annotated[list[Bucket], msgspec.Meta(max_length=256)]


class _Status(msgspec.Struct, frozen=True):
    """What a source, replica or sink says; each says a part of it."""

    state: Name = "FAILURE"
    ready: bool = True
    stranded: bool = False
    full: bool = False
    links: dict[Name, bool] = {}
    callers: Names = []
    accused: dict[Name, int] | None = None
    quarantined: Names = []
    recalculated: int = 0
    tainted: int = 0
    gave_up: dict[Name, Annotated[str, msgspec.Meta(max_length=4096)]] = {}
    waits_for: Names = []
    votes: Annotated[dict[Name, _Votes], msgspec.Meta(max_length=256)] = {}
    spark_ui: Name | None = None


_STATES: Final = frozenset({"STABLE", "UP_FAILURE", "STABILIZATION", "FAILURE"})
_NUMBERS: Final = msgspec.json.Decoder(dict[str, Any])
_WORDS: Final = msgspec.json.Decoder(_Status)


@dataclass(frozen=True, slots=True)
class Condition:
    """How a party is: what changes rarely as `facts`, ready to be sent, and its numbers."""

    facts: Mapping[str, Any]
    figures: tuple[float, ...] = (math.nan,) * len(FIGURES)
    callers: frozenset[str] = field(default_factory=frozenset)
    """Who has a link to it."""
    ballots: Mapping[str, Any] = field(default_factory=dict)
    """By stream: who voted how on the last buckets, if it compares replicas."""

    @property
    def state(self) -> str:
        return str(self.facts["state"])


def severity_of(condition: Condition) -> int:
    """Worse than its state if it has found a lie, or has stopped."""
    votes = condition.facts.get("votes") or {}
    found = votes.get("quarantined") or votes.get("gave_up") or condition.facts.get("stranded")
    return max(SEVERITIES[condition.state], 3 if found else 0)


def condition_of(said: bytes) -> Condition:
    """Of the answer of a party; StatusError if it is none."""
    if len(said) > MOST:
        raise StatusError(f"says {len(said)} bytes of itself, more than {MOST}")
    try:
        status, numbers = _WORDS.decode(said), _NUMBERS.decode(said)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StatusError(f"says what is no status ({str(error)[:200]})") from None
    if status.state not in _STATES:
        raise StatusError(f"says it is in the state {status.state[:40]!r}")
    facts: dict[str, Any] = {"state": status.state if status.ready else STARTING}
    if status.links:
        facts["links"] = status.links
    if status.stranded:
        facts["stranded"] = True
    if status.full:
        facts["full"] = True
    facts |= _judged(status)
    if status.spark_ui is not None and _is_web(status.spark_ui):
        facts["spark_ui"] = status.spark_ui
    figures = tuple(_number(numbers.get(name)) for name in FIGURES)
    return Condition(facts, figures, frozenset(status.callers), _ballots(status))


def condition_of_reader(found: Mapping[str, Any]) -> Condition:
    """Of what a reader of our own has found out about the replicas that it compares."""
    status = msgspec.convert(found, _Status)
    return Condition({"state": READING, **_judged(status)}, ballots=_ballots(status))


def _judged(status: _Status) -> dict[str, Any]:
    """What those who compare replicas have found out."""
    if status.accused is None:
        return {}
    return {
        "votes": {
            "accused": status.accused,
            "quarantined": status.quarantined,
            "recalculated": status.recalculated,
            "tainted": status.tainted,
            "gave_up": status.gave_up,
            "waits_for": status.waits_for,
        }
    }


def _ballots(status: _Status) -> dict[str, Any]:
    """With a letter for each replica, or it is no vote."""
    return {
        stream: {
            "replicas": votes.replicas,
            "buckets": [each for each in votes.buckets if len(each[1]) == len(votes.replicas)],
        }
        for stream, votes in status.votes.items()
        if votes.buckets
    }


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number else math.nan
    except OverflowError:
        return math.nan


def _is_web(url: str) -> bool:
    """Whether it may be a link of the page: any other scheme could be a script."""
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


ANSWER: Final = 1.2
"""Seconds for a party to say how it is."""
EVERY: Final = 0.4
"""Seconds between two questions to one party; with ANSWER, less than the two seconds within which
the page shows that something has failed."""
MOST_ASKED: Final = 150
"""Questions to all parties together in a second."""


def pause_for(parties: int) -> float:
    """Seconds between two questions to one of so many."""
    return max(EVERY, parties / MOST_ASKED)


class PartyWatch:
    """Asks one party until it is closed, and tells what it finds."""

    def __init__(
        self,
        name: str,
        address: str,
        security: Security | None,
        tell: Callable[[str, Condition], None],
        *,
        pause: float = EVERY,
    ) -> None:
        self._name = name
        self._address = address
        self._security = security
        self._tell = tell
        self._pause = pause
        self._client: LogClient | None = None
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"console asks {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            start = time.monotonic()
            self._tell(self._name, self._ask())
            self._closing.wait(max(0.05, self._pause - (time.monotonic() - start)))
        self._hang_up()

    def _ask(self) -> Condition:
        try:
            if self._client is None:
                self._client = LogClient(self._address, self._security, timeout=ANSWER)
            return condition_of(self._client.act("status"))
        except UnreachableError:
            # gRPC says it in ever other words, and each would be a change.
            self._hang_up()
            return Condition({"state": ABSENT, "why": "does not answer; see whether it runs"})
        except (WireError, StatusError) as error:
            self._hang_up()
            return Condition({"state": ABSENT, "why": str(error)[:300]})

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """May take as long as an answer."""
        self._closing.set()

    def join(self) -> None:
        self._thread.join(2 * ANSWER)
