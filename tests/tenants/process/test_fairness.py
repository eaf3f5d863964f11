"""Fair queueing: order, bounds, and batches that are recorded before they run."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tenants.process.engine.fairness import Budget, Cost, FairQueue, Item
from holdfast.tenants.process.engine.operating import operate
from holdfast.tenants.process.engine.planning import ALONE, Planner
from holdfast.tenants.process.engine.planning import SHARED as BUDGET
from holdfast.tenants.process.engine.storing import last_batch, progress, run_batch, store
from holdfast.tenants.process.log import Publication
from tests.tenants.process.rig import SHARED, Platform, derived, replay, simple, stored_updates


def flat(_: Item) -> Cost:
    return Cost(10, 10)


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=80),
    st.integers(1, 200),
    st.integers(1, 30),
)
def test_every_entry_is_taken_once_in_the_order_of_its_tenant(
    given_: list[tuple[str, bool]], micros: int, entries: int
) -> None:
    queue = FairQueue()
    items = [Item(n, tenant, tenant, change, 1) for n, (tenant, change) in enumerate(given_)]
    for item in items:
        queue.add([item])
    budget = Budget(micros, 1000, entries)
    taken: defaultdict[str, list[Item]] = defaultdict(list)
    while len(queue):
        changes = queue.take_changes(flat, budget)
        updates = queue.take_updates(flat, budget)
        assert changes or updates
        assert all(item.is_change for item in changes)
        assert not any(item.is_change for item in updates)
        for some in (changes, updates):
            assert len(some) <= max(1, min(entries, micros // 10))
            for item in some:
                taken[item.tenant].append(item)
    for tenant in "abcd":
        assert taken[tenant] == [item for item in items if item.tenant == tenant]


def test_a_tenant_with_one_entry_is_in_the_next_batch_whatever_another_has_queued() -> None:
    queue = FairQueue()
    for n in range(100_000):
        queue.add([Item(n, "eve", "eve/o/s", False, 1)])
    for n in range(100):
        queue.take_updates(flat, Budget(1000, 10**6, 10**6))
        queue.add([Item(200_000 + n, "ben", "ben/o/s", False, 1)])
        assert "ben" in {e.tenant for e in queue.take_updates(flat, Budget(1000, 10**6, 10**6))}


def test_a_batch_is_shared_by_all_that_wait() -> None:
    queue = FairQueue()
    for n, tenant in enumerate("abcd" * 1000):
        queue.add([Item(n, tenant, f"{tenant}/o/s", False, 1)])
    for _ in range(20):
        taken = queue.take_updates(flat, Budget(400, 10**6, 10**6))
        assert Counter(item.tenant for item in taken) == dict.fromkeys("abcd", 10)


def test_an_entry_larger_than_all_bounds_goes_alone() -> None:
    queue = FairQueue()
    for n in range(3):
        queue.add([Item(n, "eve", "eve/o/s", False, 1)])
    for n in range(3):
        taken = queue.take_updates(lambda _: Cost(1e9, 2**40), Budget(10, 10, 10))
        assert [item.position for item in taken] == [n]


def chain(length: int) -> dict[str, Any]:
    made = {"s": simple(x="number")}
    for n in range(length):
        made[f"c{n}"] = derived({"p": f"c{n - 1}" if n else "s"}, {"x": "p.x + 1.0"})
    return made


def test_a_burst_into_a_long_chain_is_many_batches_and_others_wait_for_one(tmp_path: Path) -> None:
    """The burst that took the server down: 4,500 updates of 150 results each, right after the
    document that makes the chain."""
    platform = Platform(tmp_path / "store.db")
    platform.planner = Planner(platform.database)
    platform.put("ben", "o", streams=chain(1))
    platform.settle()
    platform.put("eve", "o", streams=chain(150))
    burst = [Publication("eve/o/s", n, {"x": float(n)}) for n in range(1, 4_501)]
    platform.log.append(burst)
    platform.publish("ben/o/s", 1, x=1.0)
    batches = 0
    while not platform.updates("ben/o/c0"):
        assert platform.step()
        batches += 1
    # The first waits for the change of the document only.
    assert batches <= 2
    results = len(stored_updates(platform.database))
    micros = ALONE.micros + BUDGET.micros
    assert results < 2 * micros / 30
    assert progress(platform.database) < platform.log.end
    platform.database.close()


def test_hundreds_of_changes_are_a_few_batches(tmp_path: Path) -> None:
    platform = Platform(tmp_path / "store.db")
    platform.planner = Planner(platform.database)
    platform.put("ben", "o", streams=chain(1))
    platform.settle()
    for n in range(300):
        platform.put("eve", "o", streams={"s": simple(**{f"x{n}": "number"})})
    platform.publish("ben/o/s", 1, x=1.0)
    assert platform.step()
    assert len(platform.updates("ben/o/c0")) == 1
    batches = 1
    while platform.step():
        batches += 1
    assert batches <= 4
    platform.database.close()


def scenario(platform: Platform, seed: int) -> None:
    """Two tenants that take each other's streams and change them meanwhile."""
    chance = random.Random(seed)
    platform.put("ann", "o", streams={"s": {**simple(x="number"), **SHARED}})
    platform.put("ben", "o", streams={"s": {**simple(x="number"), **SHARED}})
    at = 0
    for _ in range(60):
        at += chance.randint(1, 3)
        tenant, other = chance.sample(["ann", "ben"], 2)
        roll = chance.random()
        if roll < 0.8:
            platform.publish(f"{tenant}/o/s", at, x=float(at))
        elif roll < 0.95:
            more = chance.choice(["1.0", "2.0"])
            aggregate = {"input": "p", "fields": {"n": {"function": "count"}}, "count": 3}
            both = derived(
                {"p": f"{tenant}/o/s", "q": f"{other}/o/s"},
                {"x": f"p.x + q.x + {more} + double(window.n)"},
                aggregate=aggregate,
                **SHARED,
            )
            platform.put(tenant, f"d{chance.randint(0, 1)}", streams={"both": both})
        else:
            kind = chance.choice(["x", "y"])
            document = {"s": {**simple(**{"x": "number", kind: "number"}), **SHARED}}
            if kind == "x":
                platform.put(tenant, "o", streams=document)
        if chance.random() < 0.1:
            platform.step()


@pytest.mark.parametrize("seed", range(8))
def test_a_recorded_order_gives_the_same_wherever_a_server_is_killed(
    tmp_path: Path, seed: int
) -> None:
    """Killed between any two steps and started again, with whatever it remembered gone."""
    platform = Platform(tmp_path / "live.db", 3)
    chance = random.Random(seed)
    scenario(platform, seed)
    plans = platform.plans
    while True:
        batch = last_batch(platform.database) + 1
        planner = Planner(platform.database, Budget(1e9, 2**30, 3))
        if not planner.record(batch):
            break
        if chance.random() < 0.4:
            planner = Planner(platform.database, Budget(1e9, 2**30, chance.randint(1, 9)))
            assert planner.record(batch)
        bundles = planner.plan(batch)
        if chance.random() < 0.4:
            assert Planner(platform.database).plan(batch) == bundles
        outcomes = [operate(bundle) for bundle in bundles]
        if chance.random() < 0.4:
            outcomes = [operate(bundle) for bundle in Planner(platform.database).plan(batch)]
        plan = store(platform.database, batch, outcomes)
        assert plan is not None
        plans.append(plan)
        if chance.random() < 0.4:
            assert store(platform.database, batch, outcomes) is None
    assert progress(platform.database) == platform.log.end
    settled = [position for plan in plans for position in plan.positions]
    assert sorted(settled) == list(range(1, platform.log.end + 1))
    replayed = replay(platform, tmp_path / "replayed.db")
    assert replayed.contents() == platform.contents()
    for each in (platform, replayed):
        each.database.close()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_graph_ends_as_the_catalog_has_it_in_whatever_order_changes_came(
    tmp_path_factory: Any, seed: int, entries: int
) -> None:
    platform = Platform(tmp_path_factory.mktemp("p") / "store.db", entries)
    scenario(platform, seed)
    planner = platform.planner
    while run_batch(platform.database, planner) is not None:
        # What is remembered is what a planner that knows nothing finds.
        fresh = Planner(platform.database)
        paths = set(planner._known)
        fresh._read = planner._read
        fresh._look_up(paths, fresh._view({}))
        assert {p: r.nodes for p, r in fresh._known.items()} == {
            p: r.nodes for p, r in planner._known.items()
        }
    platform.database.close()
