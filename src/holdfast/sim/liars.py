"""Replicas that lie: they publish other rows than they calculated, to everybody or to some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from holdfast.protocol.messages import Again, Feed, Item, Message, Stable
from holdfast.sim.scenario import Scenario
from holdfast.tuples import Row, Segment

__all__ = ["tampering"]


def tampering(scenario: Scenario, name: str) -> Callable[[Message], Message] | None:
    """What the replica does to its messages; None if it is honest."""
    share = scenario.liars.get(name)
    if share is None:
        return None
    random = Random(f"{scenario.seed}/lies/{name}")

    def tamper(message: Message) -> Message:
        if not isinstance(message, Feed):
            return message
        return replace(message, items=tuple(_lie(item, random, share) for item in message.items))

    return tamper


def _lie(item: Item, random: Random, share: float) -> Item:
    if not isinstance(item, Stable | Again) or random.random() >= share:
        return item
    segment = item.segment
    rows = list(segment.rows)
    if rows and random.random() < 0.7:
        chosen = random.randrange(len(rows))
        rows[chosen] = rows[chosen]._replace(value=random.choice([-1, 10**9]))
    else:
        rows.append(Row(segment.end - 1, "forged", 0))
    return replace(item, segment=Segment(segment.start, segment.end, tuple(rows)))
