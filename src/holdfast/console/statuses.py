"""What the console keeps of what a party says of itself.

A party may lie or be of another version, so whatever it says is checked for its types and bounded
before anything else sees it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import HoldfastError

__all__ = [
    "ABSENT",
    "ENDED",
    "FIGURES",
    "FROZEN",
    "READING",
    "SEVERITIES",
    "STARTING",
    "UNKNOWN",
    "Condition",
    "StatusError",
    "condition_of",
    "condition_of_reader",
    "severity_of",
]

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
