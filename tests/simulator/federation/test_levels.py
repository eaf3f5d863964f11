"""The vectorised twin: it moves as the managers do, and shows what the document shows."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.federation.machine import Contract, Load, Task
from simulator.federation.allocation import is_acceptable
from simulator.federation.baselines import auction, optimum, overload, unused
from simulator.federation.graphs import capacities, diameter, draw_graph, draw_loads, priced
from simulator.federation.levels import SLOTS, Levels
from simulator.federation.lockstep import Lockstep
from simulator.federation.variants import VARIANTS, converge, progress, vary

FIXED, RANGE, MIXED_FIXED, MIXED_RANGE = VARIANTS


def square(load: Load) -> float:
    return load.cpu**2 / 2


def name(node: int) -> str:
    return f"p{node:03d}"


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_it_moves_as_the_managers_do(first: int) -> None:
    """The same tasks between the same two in the same slots, with as many messages."""
    moves = 0
    for seed in range(first, first + 6):
        random = np.random.default_rng(seed)
        size = int(random.integers(3, 8))
        pairs = draw_graph(size, int(random.integers(1, 4)), random)
        limits = random.integers(4, 9, size) if seed % 2 else np.full(size, 6)
        graph = priced(pairs, limits, (0, 2, 3)[seed % 3], random)
        loads, phases = random.integers(0, 14, size), random.integers(0, SLOTS, size)
        twin = Levels(graph, loads, phases, trace=True)
        contracts = [
            Contract(name(buyer), name(seller), float(high), float(low), rank=rank)
            for rank, (buyer, seller, low, high) in enumerate(
                zip(graph.buyer, graph.seller, graph.low, graph.high, strict=True)
            )
        ]
        nodes = range(size)
        real = Lockstep(
            {name(node): square for node in nodes},
            contracts,
            {name(n): [Task(f"{n}-{k}", Load(1.0)) for k in range(loads[n])] for n in nodes},
            {name(node): int(phases[node]) for node in nodes},
        )
        twin.run(8 * SLOTS)
        real.run(8 * SLOTS)
        assert twin.moves is not None
        assert sorted((m.slot, name(m.buyer), name(m.seller), m.tasks) for m in twin.moves) == (
            sorted((t.slot, t.buyer, t.seller, len(t.tasks)) for t in real.transfers)
        ), seed
        said = [real.sent[kind] for kind in ("Offer", "Answer", "Ship", "Release")]
        # Two that talk for the first time tell each other their lives before anything counts.
        assert twin.counts.messages == sum(said) - real.sent["Hello"]
        moves += len(real.transfers)
    assert moves > 15


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
def test_load_crosses_as_many_contracts_as_the_range_is_wide(hops: int) -> None:
    """Lemma 1: M contracts need a range of M - 1 tasks. All but the last are full."""
    pairs = [(node, node + 1) for node in range(hops)]
    loads = np.array([12] + [10] * (hops - 1) + [0])

    def left(width: int) -> int:
        graph = priced(pairs, np.full(hops + 1, 10), width, np.random.default_rng(1))
        levels = Levels(graph, loads, np.zeros(hops + 1, dtype=np.int64))
        levels.run()
        return int(levels.loads[0])

    assert left(hops - 1) <= 10
    if hops > 1:
        assert left(hops - 2) == 12


def test_two_contracts_and_a_range_place_all_there_is() -> None:
    found = converge(995, 2, 50, RANGE, 1)
    assert found.overload == 0
    assert is_acceptable(found.loads.tolist(), [100] * 995, spare=5)


@pytest.mark.parametrize(
    ("percent", "contracts", "start", "bound"),
    [(50, 2, 0.30, 0.06), (50, 5, 0.30, 0.01), (75, 8, 0.34, 0.02)],
)
def test_fixed_prices_place_nearly_all(
    percent: int, contracts: int, start: float, bound: float
) -> None:
    found = converge(995, contracts, percent, FIXED, 1)
    assert found.start_overload == pytest.approx(start, abs=0.03)
    assert found.overload < bound


@pytest.mark.parametrize(("variant", "contracts", "bound"), [(RANGE, 2, 0.005), (FIXED, 4, 0.05)])
def test_overloaded_systems_use_their_capacity(variant, contracts: int, bound: float) -> None:
    assert converge(995, contracts, 125, variant, 1).unused < bound


def test_fixed_prices_come_to_an_end_at_once() -> None:
    assert converge(995, 3, 75, FIXED, 1).seconds <= 10


def test_most_of_the_benefit_comes_before_the_end() -> None:
    found = converge(200, 3, 75, RANGE, 1)
    assert 0 < found.soon < found.seconds
    course = progress(200, 3, 75, RANGE, 1)
    assert sum(each.tasks for each in course) == found.counts.tasks
    assert course[-1].left == found.overload * found.loads.sum()
    left = [each.left for each in course]
    assert left == sorted(left, reverse=True)
    start = found.start_overload * found.loads.sum()
    wanted = start - 0.95 * (start - left[-1])
    second = next(each for each in course if each.left <= wanted)
    assert second.number - 1 <= found.soon <= second.number


@pytest.mark.parametrize("above", [1, 2])
def test_who_asks_for_more_than_its_valuation_sells_at_the_second_attempt(above: int) -> None:
    """With 10 tasks here and 8 there one more costs 8.5 there and saves 9.5 here."""

    def sold(above: int) -> list[tuple[int, float]]:
        graph = priced([(0, 1)], np.array([10, 10]), 5, np.random.default_rng(1))
        phases = np.array([0, 10**6])
        levels = Levels(graph, np.array([10, 8]), phases, trace=True, above=above)
        levels.run(3 * SLOTS)
        assert levels.moves is not None
        return [(each.slot // SLOTS, each.price) for each in levels.moves]

    assert sold(0) == [(0, 8.5)]
    # 9.5 saves nothing, so it is for the valuation a round later.
    assert sold(above) == [(1, 8.5)]
    assert not any(price > 10 for _, price in sold(above))


def test_counter_offers_above_the_valuation_leave_the_same_load() -> None:
    plain, higher = (converge(200, 3, 50, RANGE, 1, above=above) for above in (0, 2))
    assert higher.overload == pytest.approx(plain.overload, abs=0.001)


def test_small_changes_move_little() -> None:
    """At a task in and one out every second each; slower changes move a larger share of less."""
    for variant in (FIXED, RANGE):
        (fast,) = vary(50, variant, 1, phases=((30, 1),))
        assert 0 < fast.share < 0.07
        assert fast.varied == pytest.approx(2 * 330 * 30, rel=0.05)


def test_loads_that_change_leave_no_place_reserved() -> None:
    random = np.random.default_rng(2)
    graph = priced(draw_graph(50, 3, random), capacities(50, random), 5, random)
    levels = Levels(graph, draw_loads(50, 75, random), random.integers(0, SLOTS, 50))
    levels.run()
    levels.loads[:] = 0
    levels.run(2 * SLOTS)
    assert not levels._reserved.any()
    assert not levels._held.any()


def test_a_move_takes_three_messages_at_least() -> None:
    graph = priced([(0, 1)], np.array([5, 5]), 0, np.random.default_rng(1))
    levels = Levels(graph, np.array([7, 0]), np.zeros(2, dtype=np.int64))
    levels.run(1)
    assert (levels.counts.messages, levels.counts.tasks) == (3, 2)


def test_messages_stay_within_the_worst_case() -> None:
    """Property 4: not more than a word to and from each partner for each task and hop."""
    for seed in range(2):
        random = np.random.default_rng(seed)
        pairs = draw_graph(40, 2, random)
        graph = priced(pairs, capacities(40), 5, random)
        loads = draw_loads(40, 75, random)
        levels = Levels(graph, loads, random.integers(0, SLOTS, 40))
        levels.run()
        rounds = levels.last_move / SLOTS + 2
        excess = int(np.maximum(0, loads - 95).sum())
        hops, most = diameter(40, pairs), int(graph.degrees.max())
        assert levels.counts.tasks <= hops * excess
        assert levels.counts.messages <= 4 * (hops * excess * most + rounds * 40)


def test_baselines() -> None:
    loads, limits = np.array([9, 1, 5, 5]), np.array([5, 5, 5, 5])
    assert (overload(loads, limits), unused(loads, limits)) == (0.2, 0.2)
    best = optimum(loads, limits)
    assert (best.loads.tolist(), best.tasks, best.deals) == ([5, 5, 5, 5], 4, 1)
    even = auction(np.array([9, 1, 5, 4]), np.random.default_rng(1))
    assert sorted(even.loads.tolist()) == [4, 5, 5, 5]
    assert even.messages > best.messages


def test_the_graph_has_as_many_contracts_as_asked_for() -> None:
    random = np.random.default_rng(5)
    pairs = draw_graph(200, 4, random)
    graph = priced(pairs, capacities(200), 0, random)
    assert graph.degrees.min() >= 4
    assert 3 <= diameter(200, pairs) <= 6
    with pytest.raises(ValueError, match="connect"):
        diameter(3, [(0, 1)])
