"""A simulated run of replicas that share work: who is there, and what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from holdfast.pipeline.machine.sharing import (
    Guarantee,
    Operator,
    Plan,
    Routing,
    Rules,
    Step,
    TupleId,
    at_random,
    by_key,
    primary,
    round_robin,
)

SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Kill:
    """A replica ends at this time, and is started again so long after, or never."""

    replica: str
    at: int
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Freeze:
    """A replica stands still for a while: all that comes waits, and it knows nothing of it."""

    replica: str
    at: int
    length: int


class Role(Enum):
    """Who dies when a replica is at a step."""

    WORKER = "worker"
    COLLEAGUE = "colleague"
    PARTNER = "partner"
    """Who sent the tuple; if that is a source, one of those who get what comes of it."""


class When(Enum):
    """How much of what the step sends has left."""

    BEFORE = "before"
    BETWEEN = "between"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class StepKill:
    """A death at the first time this tuple is at this step at this operator."""

    operator: str
    step: Step
    role: Role
    when: When
    number: int
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network does, until it is `calm`."""

    loss: float = 0.0
    repeats: float = 0.0
    jitter: int = 2_000
    calm: int = 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """`is_within`: whether the faults are within what the rules promise to survive."""

    seed: int
    plan: Plan
    rules: Rules
    routing: str = "round-robin"
    tuples: int = 60
    pace: int = 20_000
    faults: Sequence[Kill | Freeze] = ()
    step_kill: StepKill | None = None
    weather: Weather = Weather()
    end: int = 20 * SECOND
    is_within: bool = True

    @property
    def replay(self) -> str:
        return f"seed {self.seed}, {self.rules.guarantee.value}"

    @property
    def is_once(self) -> bool:
        return self.rules.guarantee is Guarantee.AT_MOST_ONCE


def draw_routing(scenario: Scenario, name: str) -> Routing:
    """How one replica or source of this run divides what it sends."""
    match scenario.routing:
        case "random":
            return at_random(Random(f"{scenario.seed}/{name}/routing"))
        case "key":
            return by_key(lambda value: value % 5)
        case "primary":
            return primary
    return round_robin


def plans(replicas: int) -> dict[str, Plan]:
    """Shapes of plans: two operators in a row, three, and a diamond."""
    several = range(replicas)
    return {
        "chain": Plan.chain(source=1, a=replicas, b=replicas, sink=1),
        "long": Plan.chain(source=2, a=replicas, b=replicas, c=replicas, sink=1),
        "diamond": Plan(
            [
                Operator("source", ("source/0",), ("a",)),
                Operator("a", tuple(f"a/{at}" for at in several), ("b", "c")),
                Operator("b", tuple(f"b/{at}" for at in several), ("d",)),
                Operator("c", tuple(f"c/{at}" for at in several), ("d",)),
                Operator("d", tuple(f"d/{at}" for at in several), ("sink",)),
                Operator("sink", ("sink/0",)),
            ]
        ),
    }


def process(operator: str, value: int) -> list[int]:
    """What the operators do: `a` splits some tuples, `b` drops some, the others count."""
    if operator == "a":
        return [10 * value + at for at in range(1 + value % 3)]
    if operator == "b" and value % 7 == 3:
        return []
    return [value + 1]


def expected(plan: Plan, source: str, number: int, value: int) -> dict[TupleId, int]:
    """What one tuple of a source comes to at the sink, if nothing goes wrong."""
    ends: dict[TupleId, int] = {}

    def go(operator: str, tuple_id: TupleId, value: int) -> None:
        below = plan.below(operator)
        if not below:
            ends[tuple_id] = value
            return
        values = [value] if plan.is_source(operator) else process(operator, value)
        ids = tuple_id.derived(len(values) * len(below))
        for at, name in enumerate(below):
            for each, given in zip(ids[at * len(values) :], values, strict=False):
                go(name, each, given)

    go(plan.of(source), TupleId(source, number), value)
    return ends
