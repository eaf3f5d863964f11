"""What a window says about its error against exact windows, whatever policy it slides by.

Never an answer that is said to be within its bound and is not. Policies are those of the library,
those of the docs, and random ones that keep the contract of `Policy`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows import Amta, Monoid, Policy
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    Method,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.policies import (
    before_max,
    hopping,
    last,
    time_span,
    two_argument,
    value_bound,
)
from tests.windows.approximation.beside import both

RECORD = m.product(
    time=m.time.over(itemgetter(0)),
    total=m.sum.over(itemgetter(1)),
    n=m.count,
    top=m.max.over(itemgetter(1)),
)

Draw = Callable[[Random], Policy]


def oldest_worth(limit: int) -> Policy:
    """Goes by what has left before: each slide lets go of so much."""
    return Policy(
        eviction_invariant=lambda candidate, _after, _before: candidate.value.total <= limit
    )


def hopping_by_worth(size: int, hop: int) -> Policy:
    return Policy(
        eviction_invariant=lambda candidate, _after, before: (
            before.value.total > size and candidate.value.total <= hop
        )
    )


def capped_peak(size: int) -> Policy:
    """The example of docs/windows.md."""
    return Policy(
        window_invariant=lambda window: window.size <= size,
        eviction_invariant=lambda candidate, after, _before: candidate.value.top <= after.value.top,
    )


def _weighed(weights: tuple[int, int, int], part: Any) -> int:
    if not part.size:
        return 0
    value = part.value
    return weights[0] * part.size + weights[1] * value.total + weights[2] * value.top


def weighed(random: Random) -> Policy:
    """Any monotone policy that weighs sizes, sums and maxima of updates that are not negative."""

    def weights() -> tuple[int, int, int]:
        return tuple(random.choice([0, 0, 1, 3]) for _ in range(3))  # type: ignore[return-value]

    window, gone, left, whole = weights(), weights(), weights(), weights()
    limit, spare, full = random.randrange(1, 200), random.randrange(-80, 80), random.randrange(150)
    keeps = random.random() < 0.4
    names = not keeps or random.random() < 0.5
    return Policy(
        window_invariant=(lambda part: _weighed(window, part) <= limit) if keeps else None,
        eviction_invariant=(
            (
                lambda candidate, after, before: (
                    _weighed(whole, before) >= full
                    and _weighed(gone, candidate) <= _weighed(left, after) + spare
                )
            )
            if names
            else None
        ),
        keep_newest=random.random() < 0.8,
    )


def _varying(random: Random) -> Policy:
    period = random.randrange(5, 60)
    return last(lambda window: 3 + window.value.time % period)


PROVEN: dict[str, Draw] = {
    "last": lambda random: last(random.randrange(1, 60)),
    "varying": _varying,
    "time_span": lambda random: time_span(random.randrange(1, 150)),
    "value_bound": lambda random: value_bound(
        random.randrange(1, 300), lambda value: value.total, keep_newest=random.random() < 0.5
    ),
    "value_bound of maxima": lambda random: value_bound(
        random.randrange(1, 10), lambda value: value.top, keep_newest=random.random() < 0.5
    ),
    "hopping": lambda random: hopping(random.randrange(20, 60), random.randrange(1, 20)),
    "half": lambda random: two_argument(
        lambda total, old: total.size > 40 and old.size <= total.size // 2
    ),
}
"""Where the exact window begins is always known for these."""
OTHERS: dict[str, Draw] = {
    "before_max": lambda random: before_max(lambda value: value.top),
    "oldest_worth": lambda random: oldest_worth(random.randrange(1, 12)),
    "hopping_by_worth": lambda random: hopping_by_worth(
        random.randrange(50, 200), random.randrange(1, 50)
    ),
    "capped_peak": lambda random: capped_peak(random.randrange(2, 50)),
    "two_argument": lambda random: two_argument(
        lambda total, old: total.value.time - old.value.time >= 70
    ),
    "weighed": weighed,
    "weighed again": weighed,
    "weighed once more": weighed,
}
METHODS: list[Callable[[Random], list[Method]]] = [
    lambda random: [max_error(absolute={"total": random.randrange(1, 60), "n": 12})],
    lambda random: [max_error(random.choice([0.02, 0.1, 0.3]))],
    lambda random: [max_error("10%", absolute={"total": 20, "n": 4}), max_leaves(5)],
    lambda random: [max_error("10%"), hops(0.9)],
    lambda random: [max_error(absolute={"total": 30, "n": 9}), hops(), max_leaves(9)],
]


def check(window: ApproximateWindow[Any, Any, Any], exact: Amta[Any, Any, Any]) -> bool | None:
    """Compare what is proven with what is so."""
    guarantee = window.guarantee()
    bound: Any = window.methods[0]
    right, answer = exact.result(), window.result()
    for name, proven in guarantee.errors.items():
        name = "n" if name == "updates" else name
        error = abs(right[name] - answer[name])
        assert error <= proven
        if guarantee.holds:
            allowed = 0 if bound.absolute is None else bound.absolute.get(name, 0)
            assert error <= max(allowed, (bound.relative or 0) * abs(right[name])) * (1 + 1e-12)
    return guarantee.holds


def updates_of(random: Random, count: int) -> list[tuple[int, int]]:
    time, updates, shape = 0, [], random.randrange(4)
    for step in range(count):
        time += random.randrange(4)
        value = [random.randrange(10), 1, step * 9 // count, random.choice([0, 0, 0, 9])][shape]
        updates.append((time, value))
    return updates


@pytest.mark.parametrize("name", [*PROVEN, *OTHERS])
@pytest.mark.parametrize("methods", METHODS)
def test_no_answer_is_certified_that_is_outside_its_bound(
    name: str, methods: Callable[[Random], list[Method]]
) -> None:
    for seed in range(5):
        random = Random(f"{name} {seed}")
        policy = (PROVEN | OTHERS)[name](random)
        window, exact = ApproximateWindow(RECORD, methods(random)), Amta(RECORD)
        for update in updates_of(random, 400):
            window.insert(update)
            exact.insert(update)
            window.slide(policy)
            exact.slide(policy)
            holds = check(window, exact)
            if name in PROVEN:
                assert holds is not None
            assert len(window) <= 3 * len(exact) + 400


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_nor_is_one_where_policies_change_and_updates_are_evicted_by_number(seed: int) -> None:
    random = Random(seed)
    some = [random.choice([*(PROVEN | OTHERS).values()])(random) for _ in range(3)]
    window, exact = ApproximateWindow(RECORD, random.choice(METHODS)(random)), Amta(RECORD)
    policy = some[0]
    for update in updates_of(random, 250):
        window.insert(update)
        exact.insert(update)
        match random.randrange(40):
            case 0 | 1:
                policy = random.choice(some)
            case 2:
                window = window.fork()
            case 3:
                window.constrain(random.randrange(3, 20))
            case 4:
                window.restore(window.saved())
            case 5 | 6 | 7 | 8:
                count = random.randrange(1 + min(len(window), len(exact), 30))
                window.evict(count)
                exact.evict(count)
                check(window, exact)
        if random.random() < 0.8:
            window.slide(policy)
            exact.slide(policy)
        check(window, exact)


@pytest.mark.parametrize("hop", [10, 500, 1_499])
@pytest.mark.parametrize(
    "methods",
    [max_error(absolute=50), max_error("5%"), max_leaves(100), [hops(), max_leaves(100)]],
    ids=str,
)
def test_a_window_that_hops_stays_near_the_exact_one(methods: Any, hop: int) -> None:
    most = 0
    answers = both(m.sum, methods, hopping(1_500, hop), repeat(1, 8_000))
    for exact, approximate, window in answers:
        guarantee = window.guarantee()
        most = max(most, window.buckets)
        assert 0 <= approximate - exact <= 75
        if guarantee.holds:
            assert approximate - exact <= max(50, 0.05 * exact)
    assert guarantee.errors == {} or guarantee.holds
    assert most <= 1_500 + 75


@pytest.mark.parametrize("policy", [oldest_worth(60), hopping_by_worth(2_000, 40)])
def test_a_window_that_is_not_proven_stays_near_the_exact_one(policy: Policy) -> None:
    random = Random(4)
    window, exact = ApproximateWindow(RECORD, max_leaves(20)), Amta(RECORD)
    for step in range(8_000):
        update = step, random.randrange(10)
        for each in (window, exact):
            each.insert(update)
            if step % 10 == 9:
                each.slide(policy)
        assert len(window) <= 1.2 * len(exact) + 50
    assert window.guarantee().holds is None


def test_a_policy_that_is_said_to_be_positional_is_certified() -> None:
    rule = two_argument(lambda total, old: total.value.time - old.value.time >= 70, positional=True)
    random = Random(3)
    methods = max_error(absolute={"total": 30, "n": 9})
    window, exact = ApproximateWindow(RECORD, methods), Amta(RECORD)
    for update in updates_of(random, 2_000):
        for each in (window, exact):
            each.insert(update)
            each.slide(rule)
        assert check(window, exact)
    assert window.created < 1_200


def test_a_predicate_that_hides_what_it_asked_for_is_not_believed() -> None:
    def rule(candidate: Any, _after: Any, _before: Any) -> bool:
        try:
            return bool(candidate.value.total <= 3)
        except BaseException:
            return False

    window, exact = (
        ApproximateWindow(RECORD, max_error(absolute={"total": 9, "n": 9})),
        Amta(RECORD),
    )
    for update in updates_of(Random(1), 300):
        for each in (window, exact):
            each.insert(update)
            each.slide(Policy(eviction_invariant=rule))
        check(window, exact)


def test_a_window_saved_without_its_start_is_certified_once_all_of_it_has_left() -> None:
    window = ApproximateWindow(m.sum, max_error(absolute=5))
    window.roll(repeat(1, 500), last(100))
    created, limit, evicted, (owed, *_), rules = window.saved()
    window.restore((created, limit, evicted, owed, rules))
    certain = []
    for _ in range(120):
        window.roll([1], last(100))
        certain.append(window.guarantee().holds)
    assert certain[:90] == [None] * 90
    assert certain[-1]


# Maxima


@pytest.mark.parametrize("monoid", [m.max, m.min, RECORD], ids=["max", "min", "record"])
@pytest.mark.parametrize("name", [*PROVEN, *OTHERS])
def test_no_maximum_is_certified_that_is_not_exact(name: str, monoid: Any) -> None:
    if monoid is not RECORD and name not in ("last", "hopping", "half"):
        return
    certain = 0
    for seed in range(4):
        random = Random(f"{name} {seed}")
        policy = (PROVEN | OTHERS)[name](random)
        window: ApproximateWindow[Any, Any, Any] = ApproximateWindow(
            monoid,
            [block_maxima(random.randrange(1, 6), confidence=0.5), *([max_leaves(9)] * (seed % 2))],
        )
        exact = Amta(monoid)
        for update in updates_of(random, 600):
            for each in (window, exact):
                each.insert(update if monoid is RECORD else update[1])
                each.slide(policy)
            holds = window.guarantee().holds
            assert holds in (True, None)
            if holds:
                certain += 1
                right, answer = exact.result(), window.result()
                assert right.top == answer.top if monoid is RECORD else right == answer
    assert certain > 250


def _greater_by_size(older: float, newer: float) -> float:
    return newer if abs(newer) > abs(older) else older


BY_SIZE: Monoid[float, float, float] = Monoid(
    "by_size", identity=0.0, lift=float, combine=_greater_by_size, lower=float
)


MONOIDS: dict[str, Monoid[Any, Any, Any]] = {
    "arg_max": m.arg_max,
    "arg_min": m.arg_min,
    "by_size": BY_SIZE,
    "by_size of itself": replace(BY_SIZE, peak=abs),
}


@pytest.mark.parametrize("name", MONOIDS)
def test_of_equal_ones_none_is_certified_that_may_be_another(name: str) -> None:
    """Though what is answered may be a number, and the same as the one that is compared."""
    certain = 0
    for seed in range(40):
        random = Random(seed)
        of, monoid = abs if name == "by_size" else None, MONOIDS[name]
        window: ApproximateWindow[Any, Any, Any] = ApproximateWindow(
            monoid, block_maxima(random.randrange(1, 6), of=of, confidence=0.5)
        )
        exact, policy = Amta(monoid), last(random.randrange(5, 60))
        for _ in range(300):
            update: Any = random.randrange(6), random.randrange(3)
            if name.startswith("by_size"):
                update = random.choice([-1, 1]) * update[0]
            for each in (window, exact):
                each.insert(update)
                each.slide(policy)
            if window.guarantee().holds:
                certain += 1
                assert window.result() == exact.result()
    assert certain > 1_000
