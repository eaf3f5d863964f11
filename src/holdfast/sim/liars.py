"""Replicas that lie: they publish other rows than they calculated, alone or in agreement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

from holdfast.protocol.messages import Again, Feed, Item, Message, Stable
from holdfast.tuples import Row, Segment

__all__ = ["Lie", "LieKind", "draw_liars", "miscalculating", "tampering"]

HUGE: Final = 10**15

LieKind = Literal["alone", "together", "glitch", "forged"]


@dataclass(frozen=True, slots=True)
class Lie:
    """How a replica lies: `alone`, each time something else; `together` with others, all the same;
    about what comes next (`forged`); or not at all, but it miscalculates, as others do, and only
    the first time (`glitch`)."""

    kind: LieKind
    share: float
    """Of the buckets."""


def draw_liars(
    random: Random, replicas: Sequence[str], faults: int, kinds: Sequence[LieKind]
) -> dict[str, Lie]:
    """As many liars as can be outvoted, or one more if they agree with each other."""
    lie = Lie(random.choice(kinds), random.choice([0.05, 0.3, 1.0]))
    count = faults + 1 if lie.kind in ("together", "glitch") else faults
    return dict.fromkeys(random.sample(replicas, count), lie)


def tampering(
    seed: int, liars: Mapping[str, Lie], name: str
) -> Callable[[Message], Message] | None:
    """What the replica does to its messages; None if it is honest."""
    lie = liars.get(name)
    if lie is None or lie.kind == "glitch":
        return None
    random = Random(f"{seed}/lies/{name}")

    def tamper(message: Message) -> Message:
        if not isinstance(message, Feed):
            return message
        told = [_tell(item, lie, random, seed) for item in message.items]
        if lie.kind == "forged" and random.random() < lie.share:
            start = random.choice([HUGE, HUGE * 10**5])
            forged = Segment(start, start + 10**5, ())
            told.append(Stable(forged) if random.random() < 0.5 else Again(forged, 0))
        return replace(message, items=tuple(told))

    return tamper


def miscalculating(
    seed: int, liars: Mapping[str, Lie], name: str
) -> Callable[[int, int, tuple[Row, ...]], tuple[Row, ...]] | None:
    """What the machine of a replica does to its rows; None if it is a good one."""
    lie = liars.get(name)
    if lie is None or lie.kind != "glitch":
        return None

    def miscalculate(start: int, end: int, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        random = Random(f"{seed}/glitch/{start}")
        if random.random() >= lie.share:
            return rows
        return _falsify(Segment(start, end, rows), random).rows

    return miscalculate


def _tell(item: Item, lie: Lie, random: Random, seed: int) -> Item:
    if not isinstance(item, Stable | Again):
        return item
    segment = item.segment
    if lie.kind == "together":
        # All of them lie about the same buckets, in the same words, whenever they are asked.
        random = Random(f"{seed}/plot/{segment.start}")
    if random.random() >= lie.share:
        return item
    return replace(item, segment=_falsify(segment, random))


def _falsify(segment: Segment, random: Random) -> Segment:
    rows = list(segment.rows)
    if rows and random.random() < 0.7:
        chosen = random.randrange(len(rows))
        rows[chosen] = rows[chosen]._replace(value=-1 - random.randrange(10**6))
    else:
        rows.append(Row(segment.end - 1, "forged", random.randrange(10**6)))
    return Segment(segment.start, segment.end, tuple(rows))
