"""The laws of a join semilattice for every type and every aggregate, and convergence over a channel
that loses, repeats and reorders. States need not be ones that replicas can reach: equal versions
with different partials, as of two processes under one name, obey the laws too."""

from __future__ import annotations

import doctest
import math
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import crdt
from holdfast.crdt import JOINS, GCounter, PerReplica, PNCounter, Shared
from holdfast.crdt.entries import Entries
from holdfast.crdt.partials import Versioned, _exceeds
from holdfast.edge.machine.aggregates import KINDS, aggregate
from holdfast.errors import InvalidArgumentError

REPLICAS = st.sampled_from(["a", "b", "c"])
RETIRED = st.frozensets(st.sampled_from(["b", "c", "d"]), max_size=2)
VALUES = st.lists(
    st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1e308, -1e308, 1e16, -1e16, 1.0]),
    max_size=40,
).map(np.array)
NUMBERS = st.integers(0, 9) | st.floats(0, 1e9)


def without(written: dict[str, Any], retired: frozenset[str]) -> dict[str, Any]:
    return {replica: entry for replica, entry in written.items() if replica not in retired}


@st.composite
def gcounters(draw: st.DrawFn) -> GCounter:
    written, retired = draw(st.dictionaries(REPLICAS, NUMBERS)), draw(RETIRED)
    return GCounter(Entries(GCounter().entries.exceeds, without(written, retired), retired))


def pncounters() -> st.SearchStrategy[PNCounter]:
    return st.builds(PNCounter, gcounters(), gcounters())


@st.composite
def per_replica(draw: st.DrawFn, kind: str) -> PerReplica:
    made = aggregate(kind)
    entries = st.builds(
        lambda version, values: Versioned(version, made.add(made.empty(), values)),
        st.integers(1, 3),
        VALUES,
    )
    written, retired = draw(st.dictionaries(REPLICAS, entries)), draw(RETIRED)
    return PerReplica(made, Entries(_exceeds, without(written, retired), retired))


def shared(kind: str) -> st.SearchStrategy[Shared]:
    return VALUES.map(lambda values: Shared(aggregate(kind)).add(values))


TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "GCounter": (GCounter(), gcounters()),
    "PNCounter": (PNCounter(), pncounters()),
    **{kind: (PerReplica(aggregate(kind)), per_replica(kind)) for kind in KINDS},
    **{f"{kind}, shared": (Shared(aggregate(kind)), shared(kind)) for kind in JOINS},
}


def bits(state: Any) -> Any:
    """Distinguishes 0.0 from -0.0, and not NaN from NaN."""
    if isinstance(state, PNCounter):
        return bits(state.increments), bits(state.decrements)
    if isinstance(state, GCounter):
        counts = sorted(state.counts.items())
        return [(name, float(n).hex()) for name, n in counts], sorted(state.entries.retired)
    return state.encode()


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40)
@given(data=st.data())
def test_states_are_a_join_semilattice(name: str, data: st.DataObject) -> None:
    bottom, states = TYPES[name]
    a, b, c = (data.draw(states) for _ in range(3))
    both = a.join(b)
    assert bits(a.join(a)) == bits(a), "idempotent"
    assert bits(both) == bits(b.join(a)), "commutative"
    assert bits(both.join(c)) == bits(a.join(b.join(c))), "associative"
    assert bits(a.join(bottom)) == bits(bottom.join(a)) == bits(a), "a bottom"
    assert a.is_within(both)
    assert b.is_within(both)
    assert a.is_within(b) == (bits(both) == bits(b)), "the order is that of the join"
    above = both.join(c)
    assert a.is_within(above)
    assert both.is_within(above), "the least of the upper bounds"


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=40)
@given(data=st.data())
def test_what_another_state_lacks_is_enough_and_no_more(name: str, data: st.DataObject) -> None:
    bottom, states = TYPES[name]
    a, b = data.draw(states), data.draw(states)
    news = a.beyond(b)
    assert bits(b.join(news)) == bits(b.join(a))
    assert news.is_within(a)
    assert bits(a.beyond(a)) == bits(bottom)


def mutate(state: Any, replica: str, values: np.ndarray[Any, Any]) -> Any:
    if isinstance(state, Shared):
        return state.add(values)
    if isinstance(state, PerReplica):
        return state.add(replica, values)
    if isinstance(state, GCounter) or len(values) % 2:
        return state.increment(replica, len(values))
    return state.decrement(replica, len(values))


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=25)
@given(data=st.data())
def test_replicas_that_write_at_once_converge(name: str, data: st.DataObject) -> None:
    """Three writers; deltas, delta-groups and whole states arrive in any order, twice, or not at
    all. A last exchange of states brings all to the same bits and to the answer of one writer."""
    bottom, _ = TYPES[name]
    integers = st.lists(st.integers(-1000, 1000), max_size=30).map(lambda v: np.array(v, float))
    replicas = dict.fromkeys("abc", bottom)
    groups = dict.fromkeys("abc", bottom)
    sent: list[Any] = []
    added: dict[str, list[np.ndarray[Any, Any]]] = {replica: [] for replica in "abc"}
    for _ in range(data.draw(st.integers(1, 12))):
        writer = data.draw(REPLICAS)
        values = data.draw(integers)
        added[writer].append(values)
        before = replicas[writer]
        delta = mutate(before, writer, values)
        replicas[writer] = before.join(delta)
        assert before.is_within(replicas[writer]), "a mutation inflates"
        groups[writer] = groups[writer].join(delta)
        sent += [delta, groups[writer], replicas[writer]]
        for reader in "abc":
            for _ in range(data.draw(st.integers(0, 2))):
                replicas[reader] = replicas[reader].join(data.draw(st.sampled_from(sent)))
    whole = reduce(lambda one, other: one.join(other), replicas.values())
    for reader in "abc":
        assert bits(replicas[reader].join(whole)) == bits(whole)
    assert repr(whole.value()) == repr(expected(bottom, added))


def expected(bottom: Any, added: dict[str, list[np.ndarray[Any, Any]]]) -> Any:
    """By plain addition, without any state of this package."""
    sizes = [len(values) for parts in added.values() for values in parts]
    if isinstance(bottom, GCounter):
        return sum(sizes)
    if isinstance(bottom, PNCounter):
        return sum(size if size % 2 else -size for size in sizes)
    kind = bottom.aggregate
    wholes = [np.concatenate([np.array([]), *parts]) for _, parts in sorted(added.items())]
    return kind.answer(kind.combine_all(kind.add(kind.empty(), whole) for whole in wholes))


@pytest.mark.parametrize("kind", KINDS)
def test_the_partials_of_the_edge_are_no_crdts_but_for_the_extremes_and_registers(
    kind: str,
) -> None:
    """Why `PerReplica` is there, and for which kinds `Shared` does."""
    made = aggregate(kind)
    partial = made.add(made.empty(), np.arange(40.0))
    assert (made.combine(partial, partial) == partial) == (kind in JOINS)
    if kind not in JOINS:
        with pytest.raises(InvalidArgumentError, match="use PerReplica"):
            Shared(made)


@pytest.mark.parametrize("name", [name for name in TYPES if "Counter" not in name])
@given(data=st.data())
@settings(max_examples=15)
def test_a_state_that_was_sent_is_the_same_state(name: str, data: st.DataObject) -> None:
    bottom, states = TYPES[name]
    state = data.draw(states)
    read = bottom.decode(state.encode())
    assert bits(read) == bits(state)
    assert repr(read.value()) == repr(state.value())


def test_nothing_goes_back_and_nothing_known_is_forwarded() -> None:
    """Figures 2.8 and 2.9 of the thesis: r2 has {r1: 2} from r1 and must not send it back; r3 has
    {r1: 2}, gets {r1: 2, r2: 1} and forwards {r2: 1} only."""
    r1 = GCounter().increment("r1", 2)
    r2 = GCounter().join(r1)
    assert r2.beyond(r1).counts == {}
    r2 = r2.join(r2.increment("r2"))
    r3 = r1
    assert r2.beyond(r3).counts == {"r2": 1}


@pytest.mark.parametrize("kind", ["sum", "mean", "range"])
def test_a_lost_delta_of_one_sign_is_healed_by_the_next(kind: str) -> None:
    """Cut 1 is +5, +7 and lost; cut 2 is -4. Deltas are whole partials, not steps."""
    writer = reader = PerReplica(aggregate(kind))
    writer = writer.join(writer.add("a", np.array([5.0, 7.0])))
    reader = reader.join(writer.add("a", np.array([-4.0])))
    assert reader.value() == {"sum": 8.0, "mean": 8 / 3, "range": 11.0}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_retired_replica_leaves_its_values_behind(kind: str) -> None:
    state = PerReplica(aggregate(kind))
    for replica, values in (("a", [1.0, 2.0]), ("b", [3.0, 5.0]), ("c", [4.0])):
        state = state.join(state.add(replica, np.array(values)))
    delta = state.retire("a", "b")
    after = state.join(delta)
    assert sorted(after.partials) == ["b", "c"]
    assert after.value() == pytest.approx(state.value())
    assert bits(after.join(state)) == bits(after), "an old copy does not bring it back"
    assert bits(state.join(delta).join(delta)) == bits(after), "moved once"
    with pytest.raises(InvalidArgumentError, match="'a' is retired"):
        after.add("a", np.array([1.0]))
    with pytest.raises(InvalidArgumentError, match="into itself"):
        after.retire("b", "b")


def test_states_of_different_aggregates_do_not_join() -> None:
    with pytest.raises(InvalidArgumentError, match="same aggregate"):
        PerReplica(aggregate("top_k", k=3)).join(PerReplica(aggregate("top_k", k=4)))
    with pytest.raises(InvalidArgumentError, match="same aggregate"):
        Shared(aggregate("min")).join(Shared(aggregate("max")))


@pytest.mark.parametrize("by", [-1, math.inf, math.nan])
def test_a_counter_only_grows(by: float) -> None:
    with pytest.raises(InvalidArgumentError, match="from 0 on"):
        GCounter().increment("a", by)


def test_two_histories_of_one_name_join_to_one_of_them_everywhere() -> None:
    bottom = PerReplica(aggregate("sum"))
    one, other = (bottom.add("a", np.array([value])) for value in (5.0, 1.0))
    assert one.join(other).value() == other.join(one).value()


def test_the_example_of_the_package_is_true() -> None:
    assert doctest.testmod(crdt).failed == 0
