"""Updates settle as the reference says, over any graph, order of updates and clocks."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st

from holdfast.tenants.machine.documents import (
    Aggregate,
    Channel,
    Field,
    Input,
    Stream,
)
from holdfast.tenants.machine.graph import parts
from holdfast.tenants.machine.settling import Limits, Node, Part, Settled, World, settle
from holdfast.tenants.machine.updates import Update
from tests.tenants.machine.graphs import ANY, Described, Summing, graphs, publications
from tests.tenants.machine.reference import Reference

RUNS = 20


class Run:
    """One world, updates in, results noted."""

    def __init__(self, part: Part, described: list[Described]) -> None:
        self.part, self.world = part, World()
        self.calculations = {each.name: Summing(each) for each in described}
        self.settled: list[Settled] = []
        self.position = 0

    def publish(self, stream: str, timestamp: int, value: int, position: int) -> Settled:
        update = Update(stream, position, timestamp, position, {"n": value})
        settled = settle(update, self.part, self.world, self.calculations, Limits(RUNS))
        self.settled.append(settled)
        return settled


def composite(name: str, *inputs: str, **more) -> Described:
    others = {
        "constant": 0,
        "drops": 0,
        "fails": 0,
        "groups": 0,
        "queries": frozenset(),
        "optional": frozenset(),
    }
    return Described(name, tuple((each,) for each in inputs), **{**others, **more})


def run_of(*described: Described) -> Run:
    return Run(Part(each.as_node() for each in described), list(described))


@given(st.data())
@settings(max_examples=300)
def test_as_the_reference(data: st.DataObject) -> None:
    simple, described = data.draw(graphs())
    updates = data.draw(publications(simple))
    expected = Reference(RUNS)
    expected.streams = {each.name: each.as_reference() for each in described}
    run = run_of(*described)
    made = []
    for position, (stream, timestamp, value) in enumerate(updates, 1):
        expected.publish(stream, timestamp, {"n": value})
        settled = run.publish(stream, timestamp, value, position)
        made += settled.updates
        lates = [at for _, at in expected.late]
        assert settled.late == (position in lates)
    wanted = [
        (each.stream, each.key, each.timestamp, each.values, each.position)
        for each in expected.emitted
        if each.stream in expected.streams
    ]
    found = [(each.stream, each.key, each.timestamp, each.values, each.position) for each in made]
    # Streams that do not depend on each other may run in another order.
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    for name in expected.streams:
        assert [f for f in found if f[0] == name] == [w for w in wanted if w[0] == name]
        assert [u.offset for u in made if u.stream == name] == list(
            range(sum(u.stream == name for u in made))
        )
    failures = [f for settled in run.settled for f in settled.failures]
    assert Counter((f.stream, f.position) for f in failures) == Counter(expected.failed)
    starved = {
        (path, at)
        for at, s in enumerate(run.settled, 1)
        for (path, _), lag in s.lags.items()
        if lag
    }
    assert starved <= set(expected.starved)
    event(f"{min(len(found), 20)} results")


@given(st.data())
@settings(max_examples=100)
def test_parts_settle_alone_as_together(data: st.DataObject) -> None:
    """Independent parts give what one world gives: that is what lets Spark divide the work."""
    simple, described = data.draw(graphs(most=5))
    others = [
        Described(
            each.name.replace("/o/", "/p/"),
            tuple(tuple(p.replace("/o/", "/p/") for p in paths) for paths in each.inputs),
            *(
                getattr(each, f)
                for f in ("queries", "optional", "constant", "drops", "fails", "groups")
            ),
        )
        for each in described
    ]
    updates = data.draw(publications([*simple, *(s.replace("/o/", "/p/") for s in simple)]))
    whole = run_of(*described, *others)
    divided = {"o": run_of(*described), "p": run_of(*others)}
    for position, (stream, timestamp, value) in enumerate(updates, 1):
        together = whole.publish(stream, timestamp, value, position)
        alone = divided[stream.split("/")[1]].publish(stream, timestamp, value, position)
        assert together == alone
    groups = parts(
        [each.name, *(p for paths in each.inputs for p in paths)] for each in [*described, *others]
    )
    for group in groups:
        assert len({path.split("/")[1] for path in group}) == 1


def test_a_diamond_is_calculated_once_and_sees_only_new_values() -> None:
    # The short side must wait for the long one.
    run = run_of(
        composite("t/o/f", "t/o/a"),
        composite("t/o/g", "t/o/a"),
        composite("t/o/h", "t/o/g"),
        composite("t/o/x", "t/o/f", "t/o/h"),
    )
    for position, value in ((1, 5), (2, 7)):
        settled = run.publish("t/o/a", position * 10, value, position)
        results = [each for each in settled.updates if each.stream == "t/o/x"]
        assert [(each.values["n"], each.timestamp) for each in results] == [
            (value + 4 * value, position * 10)
        ]


def test_a_cycle_comes_to_rest() -> None:
    run = run_of(
        composite("t/o/x", "t/o/a", "t/o/y", optional=frozenset({1})),
        composite("t/o/y", "t/o/x", constant=1),
    )
    assert [u.stream for u in run.publish("t/o/a", 1, 1, 1).updates] == ["t/o/x", "t/o/y"]
    second = run.publish("t/o/a", 2, 1, 2)
    assert [(u.stream, u.values["n"]) for u in second.updates] == [("t/o/x", 9), ("t/o/y", 10)]


def test_a_stream_counts_by_its_own_last_result() -> None:
    run = run_of(composite("t/o/n", "t/o/a", "t/o/n", constant=1))
    got = [run.publish("t/o/a", at, 0, at).updates[0].values["n"] for at in range(1, 6)]
    assert got[:3] == [1, 5, 21]


def test_a_cycle_that_changes_its_partition_is_cut_off() -> None:
    run = run_of(
        composite("t/o/x", "t/o/a", "t/o/y", optional=frozenset({1}), constant=1, groups=997),
        composite("t/o/y", "t/o/x", constant=1),
    )
    settled = run.publish("t/o/a", 1, 1, 1)
    assert settled.runs <= 2 * RUNS
    assert "runaway" in {each.kind for each in settled.failures}


def test_a_chain_of_any_depth_settles_at_once() -> None:
    names = ["t/o/a", *(f"t/o/c{n}" for n in range(1000))]
    run = run_of(*(composite(name, source) for source, name in pairwise(names)))
    assert len(run.publish("t/o/a", 1, 1, 1).updates) == 1000


def test_a_clock_that_is_behind_is_seen_to_starve_and_to_catch_up() -> None:
    run = run_of(composite("t/o/x", "t/o/fast", "t/o/slow", optional=frozenset({0, 1})))
    run.publish("t/o/fast", 1000, 1, 1)
    for position in (2, 3):
        settled = run.publish("t/o/slow", 100 + position, 1, position)
        assert settled.updates == []
    lag = settled.lags["t/o/x", "t/o/slow"]
    assert lag is not None
    assert (lag.count, lag.behind, lag.position) == (2, 897, 2)
    settled = run.publish("t/o/slow", 1001, 1, 4)
    assert len(settled.updates) == 1
    assert settled.lags == {("t/o/x", "t/o/slow"): None}


def test_one_silent_input_does_not_block_and_one_never_heard_of_does() -> None:
    run = run_of(composite("t/o/x", "t/o/a", "t/o/b"))
    assert run.publish("t/o/a", 1, 1, 1).updates == []
    assert len(run.publish("t/o/b", 2, 1, 2).updates) == 1
    for position in range(3, 6):
        (result,) = run.publish("t/o/a", position, 1, position).updates
        assert result.inputs == {"i0": ("t/o/a", position), "i1": ("t/o/b", 2)}


def test_provenance_names_all_owners() -> None:
    run = run_of(composite("t/o/x", "u/o/a"), composite("v/o/y", "t/o/x"))
    assert run.publish("u/o/a", 1, 1, 1).updates[-1].owners == ("t", "u", "v")


class Lifting(Summing):
    def lift(self, name, scope):
        return scope["i0.n"]

    def values(self, scope):
        return {"n": scope["window.total"]}


def aggregating(aggregate: Aggregate, sources: tuple[str, ...]) -> Run:
    described = composite("t/o/x", sources[0])
    query = described.as_node().stream.inputs["i0"]
    stream = Stream({"n": Channel("integer")}, inputs={"i0": query}, aggregate=aggregate)
    if len(sources) > 1:
        stream = Stream(
            {"n": Channel("integer")}, inputs={"i0": Input(query=ANY)}, aggregate=aggregate
        )
    run = Run(Part([Node("t/o/x", stream, {"i0": sources})]), [])
    run.calculations = {"t/o/x": Lifting(described)}
    return run


def test_a_window_holds_what_is_not_older_than_its_size() -> None:
    total = {"total": Field("sum", "i.n")}
    run = aggregating(Aggregate("i0", total, size="10us"), ("t/o/a",))
    got = [
        run.publish("t/o/a", at, value, n).updates[0].values["n"]
        for n, (at, value) in enumerate([(1, 1), (5, 2), (11, 4), (30, 8)], 1)
    ]
    assert got == [1, 3, 6, 8]


def test_the_last_of_each_partition_counts_until_it_expires() -> None:
    total = {"total": Field("sum", "i.n")}
    run = aggregating(Aggregate("i0", total, over="partitions", expiry="10us"), ("t/o/a", "t/o/b"))
    got = [
        run.publish(f"t/o/{name}", at, value, n).updates[0].values["n"]
        for n, (name, at, value) in enumerate(
            [("a", 1, 1), ("b", 5, 10), ("a", 6, 2), ("a", 16, 3)], 1
        )
    ]
    assert got == [1, 11, 12, 3]
