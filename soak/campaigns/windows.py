"""Every window algorithm against a plain list, under random operations and random policies."""

from __future__ import annotations

from random import Random
from typing import Any

from holdfast.windows import (
    Amta,
    Daba,
    LogMta,
    MemoryStore,
    Monoid,
    Recalculation,
    TwoStacks,
    open_window,
    policies,
)
from holdfast.windows.policies import Part, Policy

DESCRIPTION = "all window algorithms and stored windows against a plain list, with forks and drops"

STEPS = 2_000
# Concatenation shows any loss, doubling or reordering; its states come to grow with the window.
CONCATENATION: Monoid[int, tuple[int, ...], tuple[int, ...]] = Monoid(
    "concatenation",
    identity=(),
    lift=lambda value: (value,),
    combine=lambda older, newer: older + newer,
    lower=lambda state: state,
)
LONGEST = 300


def run(seed: int) -> str:
    """One random run of every algorithm; raises on the first answer that is not the list's."""
    windows: dict[str, Any] = {
        kind.__name__: kind(CONCATENATION)
        for kind in (Recalculation, TwoStacks, Daba, LogMta, Amta)
    }
    windows["stored"] = open_window(CONCATENATION, MemoryStore(), "soak", buffer=6, cache=6)
    forks = 0
    for name, window in windows.items():
        forks += _drive(name, window, Random(f"{seed} {name}"))
    return f"{len(windows)} windows, {STEPS:,} steps each, {forks} forks"


def _drive(name: str, window: Any, rng: Random) -> int:
    """Drive one window and its forks; answers how many forks there were."""
    family: list[tuple[Any, list[int]]] = [(window, [])]
    number = forks = 0
    for step in range(STEPS):
        index = rng.randrange(len(family))
        window, held = family[index]
        match rng.choices(
            ["insert", "evict", "bulk", "slide", "fork", "drop"],
            # Long stretches of growth and of decline, so that all sizes come up.
            [60 if step // 200 % 2 else 40, 30, 4, 15, 2, 2],
        )[0]:
            case "evict" if held:
                window.evict()
                del held[0]
            case "bulk":
                count = rng.randint(0, len(held))
                window.evict(count)
                del held[:count]
            case "slide":
                policy, due = _random_policy(rng, tuple(held))
                evicted = window.slide(policy, debug=rng.random() < 0.1)
                assert evicted == due, f"{name}, step {step}: {evicted} evicted, {due} due"
                del held[:due]
            case "fork" if hasattr(window, "fork") and len(family) < 6:
                family.append((window.fork(), list(held)))
                forks += 1
            case "drop" if len(family) > 1:
                window.drop()
                del family[index]
            case _ if len(held) < LONGEST:
                window.insert(number)
                held.append(number)
                number += 1
        for member, expected in family:
            assert member.result() == tuple(expected), f"{name}, step {step}"
            assert len(member) == len(expected), f"{name}, step {step}"
    return forks


def _random_policy(rng: Random, held: tuple[int, ...]) -> tuple[Policy, int]:
    """A policy of a random form that checks what it is shown, and how many it makes leave."""
    size = len(held)
    longest, due = rng.randint(1, LONGEST), rng.randint(0, size)
    keep = rng.random() < 0.5

    def acceptable(window: Part) -> bool:
        assert window.value == held[size - window.size :]
        return window.size <= longest

    def leaves(candidate: Part, after: Part, before: Part) -> bool:
        assert before.value == held
        assert candidate.value == held[: candidate.size]
        assert after.value == held[candidate.size :]
        return candidate.size <= due

    match rng.randrange(4):
        case 0:
            return policies.last(longest), max(0, size - longest)
        case 1:
            policy, evicted = Policy(window_invariant=acceptable, keep_newest=keep), size - longest
        case 2:
            policy, evicted = Policy(eviction_invariant=leaves, keep_newest=keep), due
        case _:
            policy = Policy(acceptable, leaves, keep_newest=keep)
            evicted = max(size - longest, due)
    return policy, min(max(0, evicted), max(0, size - keep))
