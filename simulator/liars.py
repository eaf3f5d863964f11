"""Replicas that lie: they publish other rows than they calculated, alone or in agreement, or right
ones, but not each of them once and in order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

from holdfast.pipeline.gates.sample import KEY_BYTES, is_drawn
from holdfast.pipeline.machine.messages import Again, Feed, Item, Message, Stable
from holdfast.pipeline.machine.tuples import Row, Segment

HUGE: Final = 10**15

OLD: Final = 8
"""So many messages back one may be repeated."""

LieKind = Literal[
    "alone",
    "together",
    "glitch",
    "forged",
    "omitting",
    "repeating",
    "disordering",
    "counting",
    "predicting",
]
CLEVER: Final[tuple[LieKind, ...]] = ("counting", "predicting")
"""Those who lie in what they take for no samples."""
Told = Callable[[str, int], None]
"""Note that this reader was told a lie about this bucket."""


@dataclass(frozen=True, slots=True)
class Lie:
    """How a replica lies: `alone`, each time something else; `together` with others, all the same;
    about what comes next (`forged`); or not at all, but it miscalculates, as others do, and only
    the first time (`glitch`). Or it leaves out messages and parts of them (`omitting`), says them
    several times (`repeating`), or in another order (`disordering`). `counting` takes every n-th
    bucket for a sample of a reader that samples, `predicting` those that a guessed key would draw;
    both tell the truth there and lie in all others, always in the same words."""

    kind: LieKind
    share: float
    """Of the buckets, or messages."""


def draw_liars(
    random: Random, replicas: Sequence[str], faults: int, kinds: Sequence[LieKind]
) -> dict[str, Lie]:
    """As many liars as can be outvoted, or one more if they agree with each other."""
    lie = Lie(random.choice(kinds), random.choice([0.05, 0.3, 1.0]))
    if lie.kind in CLEVER:
        lie = Lie(lie.kind, 1.0)
    count = faults + 1 if lie.kind in ("together", "glitch") else faults
    return dict.fromkeys(random.sample(replicas, count), lie)


def tampering(
    seed: int, liars: Mapping[str, Lie], name: str, size: int, every: int, told: Told
) -> Callable[[str, Message], Sequence[Message]] | None:
    """What the replica sends a reader in the place of a message; None if it is honest. `size`: of
    its buckets. `every`: readers that sample vote on one bucket of so many, which is no secret.
    `told` hears of the lies of those who think that they know which."""
    lie = liars.get(name)
    if lie is None or lie.kind == "glitch":
        return None
    random = Random(f"{seed}/lies/{name}")
    if lie.kind in ("omitting", "repeating", "disordering"):
        return _Disorder(lie, random)
    if lie.kind in CLEVER:
        guess = Random(f"{seed}/guess").randbytes(KEY_BYTES)
        return _clever(lie.kind, guess, size, every, told)

    def tamper(reader: str, message: Message) -> Sequence[Message]:
        if not isinstance(message, Feed):
            return (message,)
        told = [_tell(item, lie, random, seed) for item in message.items]
        if lie.kind == "forged" and random.random() < lie.share:
            start = random.choice([HUGE, HUGE * 10**5])
            forged = Segment(start, start + 10**5, ())
            told.append(Stable(forged) if random.random() < 0.5 else Again(forged, 0))
        return (replace(message, items=tuple(told)),)

    return tamper


def _clever(
    kind: LieKind, guess: bytes, size: int, every: int, told: Told
) -> Callable[[str, Message], Sequence[Message]]:
    """Lies where it takes nothing for a sample."""

    def is_safe(bucket: int) -> bool:
        is_sample = bucket % every == 0 if kind == "counting" else is_drawn(guess, every, bucket)
        return not is_sample

    def tell(reader: str, item: Item) -> Item:
        if not isinstance(item, Stable | Again):
            return item
        segment, rows = item.segment, []
        for row in segment.rows:
            bucket = row.stime // size
            if is_safe(bucket):
                told(reader, bucket)
                row = row._replace(value=-1)
            rows.append(row)
        return replace(item, segment=Segment(segment.start, segment.end, tuple(rows)))

    def tamper(reader: str, message: Message) -> Sequence[Message]:
        if not isinstance(message, Feed):
            return (message,)
        items = tuple(tell(reader, item) for item in message.items)
        return (replace(message, items=items),)

    return tamper


class _Disorder:
    """Tells the truth, but not each piece of it once and in order."""

    def __init__(self, lie: Lie, random: Random) -> None:
        self._lie = lie
        self._random = random
        self._old: defaultdict[str, deque[Feed]] = defaultdict(lambda: deque(maxlen=OLD))
        self._held: dict[str, Feed] = {}

    def __call__(self, reader: str, message: Message) -> Sequence[Message]:
        if not isinstance(message, Feed):
            return (message,)
        old = self._old[reader]
        old.append(message)
        if self._random.random() >= self._lie.share:
            return (message,)
        match self._lie.kind:
            case "omitting":
                return self._omit(message)
            case "repeating":
                twice = replace(message, items=message.items * 2)
                return (twice, self._random.choice(old), twice)
            case _:
                return self._disorder(reader, message)

    def _omit(self, feed: Feed) -> Sequence[Message]:
        if self._random.random() < 0.5:
            return ()
        kept = tuple(item for item in feed.items if self._random.random() < 0.5)
        return (replace(feed, items=kept),)

    def _disorder(self, reader: str, feed: Feed) -> Sequence[Message]:
        """Hold it back until another one was sent, and exchange their numbers or their items."""
        items = list(feed.items)
        self._random.shuffle(items)
        shuffled = replace(feed, items=tuple(items))
        held = self._held.pop(reader, None)
        if held is None:
            self._held[reader] = shuffled
            return ()
        if self._random.random() < 0.5:
            return (shuffled, held)
        return (replace(shuffled, items=held.items), replace(held, items=shuffled.items))


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
