"""Running operators give what recalculation gives, and forks do not disturb each other."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError, WindowDroppedError
from holdfast.pipeline.machine.tuples import Row
from holdfast.windows import monoids as m
from holdfast.windows.pairs import MemoryPairs
from simulator.diagram import (
    CountWindow,
    Diagram,
    Filter,
    Join,
    Map,
    Operator,
    Placed,
    Sort,
    StagePlan,
    Union,
    WindowAggregate,
    rewrite,
)
from simulator.operators import Stage
from simulator.recalculation import recalculate

Streams = dict[str, list[Row]]


def alone(operator: Operator, inputs: int = 1) -> StagePlan:
    names = tuple(f"in{number}" for number in range(inputs))
    outputs = ("yes", "maybe", "no") if isinstance(operator, Filter) else ("out",)
    (plan,) = rewrite(Diagram(names, (Placed("out", operator, names, "one"),), outputs))
    return plan


def together() -> StagePlan:
    """Everything that converges, on one stage."""
    (plan,) = rewrite(
        Diagram(
            ("in0", "in1", "in2"),
            (
                Placed("all", Union(), ("in0", "in1"), "one"),
                Placed("cases", CASES, ("all",), "one"),
                Placed("sums", WindowAggregate(40, 20, m.sum), ("yes",), "one"),
                Placed("pairs", Join(15), ("sums", "in2"), "one"),
                Placed("counts", WindowAggregate(30, 10, m.count), ("pairs",), "one"),
            ),
            ("sums", "pairs", "counts", "maybe", "no"),
        )
    )
    return plan


CASES = Filter(
    (("yes", lambda row: row.value % 3 > 0), ("maybe", lambda row: row.value % 2 > 0)),
    no_match="no",
)
PLANS = {
    "filter": alone(CASES),
    "map": alone(Map(lambda row: (row.value % 2, (row.key, row.value)))),
    "union": alone(Union(), inputs=3),
    "join": alone(Join(12), inputs=2),
    "join at one time": alone(Join(0), inputs=2),
    "join by predicate": alone(Join(7, lambda a, b: a.value < b.value), inputs=2),
    "tumbling": alone(WindowAggregate(20, 20, m.sum)),
    "sliding": alone(WindowAggregate(60, 5, m.sum)),
    "slides shorter than buckets": alone(WindowAggregate(12, 3, m.collect)),
    "anchored": alone(WindowAggregate(30, 10, m.collect, anchored=True)),
    "landmark": alone(WindowAggregate(None, 15, m.collect)),
    "count window": alone(CountWindow(3, m.collect)),
    "sort": alone(Sort(3, lambda row: row.value)),
    "together": together(),
}


def random_rows(random: Random, start: int, end: int) -> list[Row]:
    """Few keys, many equal times, and now and then a silence."""
    count = random.choice([0, 0, 1, 3, 8])
    times = sorted(random.randrange(start, end) for _ in range(count))
    return [Row(time, random.choice(["x", "y", 3]), random.randrange(20)) for time in times]


def random_bucket(random: Random, plan: StagePlan, start: int, end: int) -> Streams:
    return {name: random_rows(random, start, end) for name in plan.inputs}


class Line:
    """A stage, all that went into it and all that came out of it."""

    def __init__(self, stage: Stage, fed: Streams, made: Streams) -> None:
        self.stage = stage
        self.fed = {name: list(rows) for name, rows in fed.items()}
        self.made = {name: list(rows) for name, rows in made.items()}

    @classmethod
    def of(cls, plan: StagePlan) -> Line:
        made: Streams = {output.stream: [] for output in plan.outputs}
        return cls(Stage(plan), {name: [] for name in plan.inputs}, made)

    def feed(self, start: int, end: int, rows: Mapping[str, Sequence[Row]]) -> None:
        for name, some in rows.items():
            self.fed[name] += some
        for name, out in self.stage.run(start, end, rows).items():
            assert all(start <= row.stime < end for row in out)
            self.made[name] += out

    def step(self, random: Random, size: int) -> None:
        start = self.stage.boundary or 0
        end = start + size
        self.feed(start, end, random_bucket(random, self.stage.plan, start, end))

    def check(self) -> None:
        until = self.stage.boundary or 0
        right = recalculate([self.stage.plan], self.fed, 1, until)
        for name, rows in self.made.items():
            assert rows == right[name], name
            assert [row.stime for row in rows] == sorted(row.stime for row in rows)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("size", [1, 7, 10, 64])
def test_operators_give_what_recalculation_gives(plan: StagePlan, size: int) -> None:
    for seed in range(10):
        random = Random(f"{seed} {size}")
        line = Line.of(plan)
        for _ in range(30):
            line.step(random, size)
        line.check()


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("seed", range(12))
def test_forks_and_copies_do_not_disturb_each_other(plan: StagePlan, seed: int) -> None:
    """Bases, forks, forks of forks and copies go on in any order, each with input of its own."""
    random = Random(seed)
    size = random.choice([4, 10, 25])
    lines = [Line.of(plan)]
    for _ in range(200):
        line = random.choice(lines)
        action = random.random()
        if action < 0.75:
            line.step(random, size)
        elif action < 0.88 and len(lines) < 6:
            stage = line.stage.copy() if action < 0.78 else line.stage.fork()
            lines.append(Line(stage, line.fed, line.made))
        elif len(lines) > 1:
            line.check()
            line.stage.drop()
            lines.remove(line)
    for line in lines:
        line.check()


def convergent_plans() -> dict[str, StagePlan]:
    return {name: plan for name, plan in PLANS.items() if plan.convergent}


@pytest.mark.parametrize("plan", convergent_plans().values(), ids=convergent_plans())
def test_a_restarted_stage_is_right_after_its_span(plan: StagePlan) -> None:
    for seed in range(10):
        random = Random(seed)
        stage, other = Stage(plan), Stage(plan)
        first = random.randrange(30)
        for bucket in range(60):
            start, end = 10 * bucket, 10 * bucket + 10
            rows = random_bucket(random, plan, start, end)
            if bucket == first:
                other.restart()
            right, found = stage.run(start, end, rows), other.run(start, end, rows)
            if start >= 10 * first + plan.span or bucket < first:
                assert found == right


def test_a_restart_leaves_forks_alone() -> None:
    random = Random(3)
    line = Line.of(PLANS["together"])
    for _ in range(20):
        line.step(random, 10)
    fork = Line(line.stage.fork(), line.fed, line.made)
    line.stage.restart()
    for _ in range(20):
        fork.step(random, 10)
    fork.check()


def test_an_input_that_is_not_given_has_no_rows() -> None:
    stage = Stage(PLANS["union"])
    assert stage.run(0, 10, {"in1": [Row(3, "x", 1)]}) == {"out": (Row(3, "x", 1),)}


def test_buckets_follow_each_other() -> None:
    stage = Stage(PLANS["sliding"])
    stage.run(50, 60, {})
    with pytest.raises(InvalidArgumentError, match=r"begins at 70 but .* ended at 60; .*restart"):
        stage.run(70, 80, {})
    assert stage.boundary == 60
    stage.restart()
    stage.run(70, 80, {})


def test_a_dropped_stage_refuses_to_go_on() -> None:
    stage = Stage(PLANS["sliding"])
    fork = stage.fork()
    stage.drop()
    for use in (lambda: stage.run(0, 10, {}), stage.fork, stage.copy):
        with pytest.raises(WindowDroppedError, match="this stage was dropped"):
            use()
    fork.run(0, 10, {})


def test_keys_with_nothing_in_their_window_are_forgotten() -> None:
    stage = Stage(alone(WindowAggregate(20, 10, m.sum)))
    for number in range(100):
        start = 10 * number
        out = stage.run(start, start + 10, {"in0": [Row(start, number, 1)]})["out"]
        assert {row.key for row in out} == {number, max(0, number - 1)}
    copy = stage.copy()
    assert copy.copied < 30


def live_places() -> int:
    """How many places for pairs of windows are in memory."""
    gc.collect()
    # isinstance would look behind the dead proxies that others have left.
    return sum(type(thing) is MemoryPairs for thing in gc.get_objects())


def test_what_nobody_holds_any_more_is_freed() -> None:
    random = Random(5)
    line = Line.of(PLANS["together"])
    for _ in range(20):
        line.step(random, 10)
    before = live_places()
    base = line.stage
    for number in range(30):
        fork = Line(base.fork(), line.fed, line.made)
        inner = Line(fork.stage.fork(), line.fed, line.made)
        for each in random.sample([line, fork, inner], 3):
            each.step(random, 10)
        stages = random.sample([fork.stage, inner.stage], 2)
        stages[0].drop()
        if number % 2:
            stages[1].drop()
        else:
            stages[1].restart()
        del fork, inner, each, stages
    line.check()
    assert live_places() <= before + 10


def filled(panes: int) -> Stage:
    stage = Stage(alone(WindowAggregate(10 * panes, 10, m.sum)))
    for start in range(0, 15 * panes, 10):
        stage.run(start, start + 10, {"in0": [Row(start, "x", 1)]})
    return stage


def work_of(make: Any, stage: Stage) -> int:
    """What it costs to part from a stage and run a few buckets."""
    other = make(stage)
    assert stage.boundary is not None
    for start in range(stage.boundary, stage.boundary + 50, 10):
        other.run(start, start + 10, {"in0": [Row(start, "x", 1)]})
    return int(other.combines + other.copied)


def test_a_fork_copies_little_and_a_copy_all() -> None:
    small, large = filled(100), filled(3200)
    assert work_of(Stage.fork, large) < 2 * work_of(Stage.fork, small)
    assert work_of(Stage.copy, large) > 16 * work_of(Stage.copy, small)


def test_work_is_counted_by_who_does_it() -> None:
    base = filled(100)
    combines = base.combines
    assert combines > 0
    fork = base.fork()
    assert base.boundary is not None
    fork.run(base.boundary, base.boundary + 10, {"in0": [Row(base.boundary, "x", 1)]})
    assert base.combines == combines
    assert fork.combines > 0
    assert fork.copied > 0
    assert base.copied == 0
    fork.drop()
    base.run(base.boundary, base.boundary + 10, {})
    assert base.copied == 0
