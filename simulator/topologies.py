"""The pipelines that are simulated: some with a name, others drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import Row
from holdfast.windows import monoids
from simulator.diagram import (
    CountWindow,
    Diagram,
    Filter,
    Join,
    Map,
    Operator,
    Placed,
    Union,
    WindowAggregate,
)


def draw_topology(name: str, random: Random, size: int) -> Diagram:
    """The diagram of that name, for buckets of this size; `random` draws what it leaves open."""
    try:
        draw = TOPOLOGIES[name]
    except KeyError:
        raise InvalidArgumentError(
            f"topology: there is none called {name!r}; give one of {', '.join(TOPOLOGIES)}"
        ) from None
    return draw(random, size)


def chain(length: int) -> Callable[[Random, int], Diagram]:
    """Three sources into one union, then stage after stage with one input each."""

    def draw(random: Random, size: int) -> Diagram:
        operators = [Placed("u1", Union(), ("a", "b", "c"), "s1")]
        for number in range(2, length + 1):
            before = operators[-1].name
            operators.append(Placed(f"m{number}", Map(_mark), (before,), f"s{number}"))
        return Diagram(("a", "b", "c"), tuple(operators), (operators[-1].name,))

    return draw


def window(random: Random, size: int) -> Diagram:
    """A sliding window over two sources, and another over its answers."""
    return Diagram(
        ("a", "b"),
        (
            Placed("u", Union(), ("a", "b"), "s1"),
            Placed("w", _window(random, size), ("u",), "s1"),
            Placed("v", _window(random, size), ("w",), "s2"),
        ),
        ("v",),
    )


def join(random: Random, size: int) -> Diagram:
    """A join of two sources behind a stage each."""
    return Diagram(
        ("a", "b"),
        (
            Placed("ma", Map(_mark), ("a",), "s1"),
            Placed("mb", Map(_mark), ("b",), "s2"),
            Placed("j", _join(random, size), ("ma", "mb"), "s3"),
        ),
        ("j",),
    )


def mixed(random: Random, size: int) -> Diagram:
    """A join and a union of the same inputs on one stage: one blocks where the other goes on."""
    return Diagram(
        ("a", "b"),
        (
            Placed("j", _join(random, size), ("a", "b"), "s1"),
            Placed("u", Union(), ("a", "b"), "s1"),
            Placed("w", _window(random, size), ("u",), "s2"),
        ),
        ("j", "w"),
    )


def diamond(random: Random, size: int) -> Diagram:
    """One stream split in two that meet again."""
    return Diagram(
        ("a", "b"),
        (
            Placed("u", Union(), ("a", "b"), "s1"),
            Placed("f", Filter((("even", _is_even),), "odd"), ("u",), "s1"),
            Placed("me", Map(_mark), ("even",), "s2"),
            Placed("wo", _window(random, size), ("odd",), "s3"),
            Placed("d", Union(), ("me", "wo"), "s4"),
        ),
        ("d",),
    )


def last_rows(random: Random, size: int) -> Diagram:
    """A window over the last rows of each key, which does not converge."""
    return Diagram(
        ("a", "b"),
        (
            Placed("u", Union(), ("a", "b"), "s1"),
            Placed("w", CountWindow(random.randrange(2, 9), monoids.sum), ("u",), "s1"),
            Placed("m", Map(_mark), ("w",), "s2"),
        ),
        ("m",),
    )


def anything(random: Random, size: int) -> Diagram:
    """One to four stages over one to three sources, as the seed has it."""
    sources = tuple("abc"[: random.randrange(1, 4)])
    unread = list(sources)
    streams = list(sources)
    operators: list[Placed] = []
    count = random.randrange(1, 5)
    for number in range(1, count + 1):
        stage = f"s{number}"
        last = number == count
        some = random.sample(unread, random.randrange(1, len(unread) + 1))
        inputs = list(unread) if last else some
        more = [stream for stream in streams if stream not in inputs]
        if more and random.random() < 0.4:
            inputs.append(random.choice(more))
        unread = [stream for stream in unread if stream not in inputs]
        made = _stage(random, size, number, stage, tuple(inputs))
        operators += made
        unread.append(made[-1].name)
        streams.append(made[-1].name)
    return Diagram(sources, tuple(operators), (operators[-1].name,))


def _stage(
    random: Random, size: int, number: int, stage: str, inputs: tuple[str, ...]
) -> list[Placed]:
    made: list[Placed] = []
    if len(inputs) == 2 and random.random() < 0.4:
        made.append(Placed(f"j{number}", _join(random, size), inputs, stage))
        made.append(Placed(f"k{number}", Map(_add), (f"j{number}",), stage))
    elif len(inputs) > 1:
        made.append(Placed(f"u{number}", Union(), inputs, stage))
    if not made or random.random() < 0.6:
        source = made[-1].name if made else inputs[0]
        operators: list[Operator] = [Map(_mark), _window(random, size)]
        operator = random.choice(operators)
        made.append(Placed(f"o{number}", operator, (source,), stage))
    return made


def _window(random: Random, size: int) -> WindowAggregate:
    slide = size * random.choice([1, 1, 2])
    monoid = random.choice([monoids.sum, monoids.max, monoids.count])
    return WindowAggregate(slide * random.choice([1, 3, 5]), slide, monoid)


def _join(random: Random, size: int) -> Join:
    return Join(random.choice([size // 2, size * 2]))


def _mark(row: Row) -> tuple[Any, Any]:
    return row.key, row.value * 3 + 1


def _add(row: Row) -> tuple[Any, Any]:
    left, right = row.value
    return row.key, left * 31 + right


def _is_even(row: Row) -> bool:
    return bool(row.value % 2 == 0)


TOPOLOGIES: Final[dict[str, Callable[[Random, int], Diagram]]] = {
    "any": anything,
    "chain-1": chain(1),
    "chain-2": chain(2),
    "chain-3": chain(3),
    "chain-4": chain(4),
    "window": window,
    "join": join,
    "mixed": mixed,
    "diamond": diamond,
    "last-rows": last_rows,
}
