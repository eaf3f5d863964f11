"""Settings of gate policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.config.durations import Span
from holdfast.config.fields import Interval, choice, interval, whole
from holdfast.config.settings import Setting, setting

SHARE: Final = "share"
MERGE: Final = "merge"

POLICIES: Final[Mapping[str, str]] = {
    "order": "Waits until all inputs have passed a bucket. Never shows anything tentative.",
    "switch": "The same from the best replica; after `max_delay` tentative rows, corrected later.",
    "vote": "Waits until 2f+1 of 3f+1 replicas agree on a bucket. Survives f that lie.",
    "vote-latest": "The same for the newest bucket; older ones are skipped.",
    "sample": "Trusts one of 3f+1 replicas, and votes on one bucket in `every`, drawn in secret.",
    "first": "Takes the first copy of every bucket, in order.",
    "latest": "Takes a copy of any newer bucket, never an older one.",
    SHARE: "As `order`, but lets each bucket in to one of the stage's own replicas only: they "
    "share its work. For steps that look at each row alone.",
    MERGE: "As `order`, for the windows of an edge: its root has merged the states of all "
    "children.",
}
VOTING: Final = frozenset({"vote", "vote-latest", "sample"})
"""Those that outvote `faults` replicas of 3 · faults + 1."""
COMPARING: Final = VOTING | {"first", "latest"}
"""Those that read all replicas of an input at once."""
ROUTINGS: Final = ("round-robin", "hash", "primary")
RESTS: Final = ("distance", "rate")
GUARANTEES: Final = ("exactly-once", "at-least-once", "at-most-once")


def policy(doc: str, *options: str) -> Setting[str, str]:
    return setting(choice(*options), doc, example='"vote"', default="switch")


def faults() -> Setting[int, int]:
    return setting(
        whole(1),
        "With `vote`, `vote-latest` and `sample`: how many replicas of an input may lie. It needs "
        "three times as many and one more.",
        example="2",
        default=1,
    )


def every() -> Setting[int, int]:
    return setting(
        whole(1),
        "With `sample`: one bucket of so many is voted on, on average.",
        example="5",
        default=10,
    )


def barrier() -> Setting[Interval, Span]:
    return setting(
        interval(),
        "With the policies that read all replicas at once: so long it waits at the start until "
        "all of them are there; then enough of them will do.",
        example='"1m"',
        default=Span(30_000_000),
    )


def proofs() -> Setting[int, int]:
    return setting(
        whole(1),
        "With `vote`, `vote-latest` and `sample`: after being found out so often, a replica is in "
        "quarantine, and its votes do not count. There are never more than `faults` in it.",
        example="1",
        default=3,
    )


def room() -> Setting[int, int]:
    return setting(
        whole(0),
        "With `vote` and `vote-latest`: when more copies of buckets than this wait for a decision, "
        "the fastest replica rests.",
        example="128",
        default=32,
    )


def rest() -> Setting[str, str]:
    return setting(
        choice(*RESTS),
        "With `vote` and `vote-latest`: how long the fastest one rests. For the time that the "
        "slowest one that is needed takes for the buckets between them, or for one bucket at a "
        "time.",
        example='"rate"',
        default=RESTS[0],
    )


def routing() -> Setting[str, str]:
    return setting(
        choice(*ROUTINGS),
        "With `share`: whose a bucket is. One after the other, by a hash of its number, or all of "
        "the first replica, while the others stand by.",
        example='"hash"',
        default=ROUTINGS[0],
    )


def guarantee() -> Setting[str, str]:
    return setting(
        choice(*GUARANTEES),
        "With `share`: what holds for each bucket when a replica fails. Buckets have numbers, so "
        "`at-least-once` costs what `exactly-once` does, and is the same.",
        example='"at-most-once"',
        default=GUARANTEES[0],
    )
