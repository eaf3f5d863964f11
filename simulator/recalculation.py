"""What a run without faults gives: every stream calculated at once from all rows of the sources.

The oracle of the simulator. It follows the descriptions of the operators and shares no code with
their running forms; it knows neither buckets nor state.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from typing import Any

from holdfast.pipeline.machine.tuples import Row
from holdfast.windows.monoid import Monoid
from simulator.diagram import (
    CountWindow,
    Filter,
    Map,
    Merge,
    OrderedJoin,
    Sort,
    StagePlan,
    WindowAggregate,
)

Rows = list[Row]


def recalculate(
    plans: Sequence[StagePlan], sources: Mapping[str, Sequence[Row]], size: int, until: int
) -> dict[str, Rows]:
    """All rows of every stream, sources too, in all whole buckets of this size before `until`.

    Rows of a source come by time, from 0 on; streams are merged by time, input and place.
    """
    end = until // size * size
    streams = {name: [row for row in rows if row.stime < end] for name, rows in sources.items()}
    for plan in plans:
        for step in plan.steps:
            calculate = _CALCULATIONS[type(step.operator)]
            made = calculate(step.operator, [streams[name] for name in step.inputs], end)
            streams.update(zip(step.outputs, made, strict=True))
    return streams


def _filter(operator: Filter, inputs: list[Rows], end: int) -> list[Rows]:
    names = [name for name, _ in operator.predicates]
    by_output: dict[str | None, Rows] = {name: [] for name in [*names, operator.no_match]}
    for row in inputs[0]:
        matches = [name for name, predicate in operator.predicates if predicate(row)]
        by_output[matches[0] if matches else operator.no_match].append(row)
    return [rows for name, rows in by_output.items() if name is not None]


def _map(operator: Map, inputs: list[Rows], end: int) -> list[Rows]:
    mapped = []
    for row in inputs[0]:
        key, value = operator.function(row)
        mapped.append(Row(row.stime, key, value))
    return [mapped]


def _merge(operator: Merge, inputs: list[Rows], end: int) -> list[Rows]:
    placed = [
        (row.stime, number, place, row)
        for number, rows in enumerate(inputs)
        for place, row in enumerate(rows)
    ]
    return [[row for *_, row in sorted(placed, key=lambda entry: entry[:3])]]


def _join(operator: OrderedJoin, inputs: list[Rows], end: int) -> list[Rows]:
    """Pairs by the place of the later of their rows in the merged order, then of the earlier."""
    left, right = (
        [((row.stime, side, place), row) for place, row in enumerate(rows)]
        for side, rows in enumerate(inputs)
    )
    match = operator.match or (lambda a, b: a.key == b.key)
    pairs = []
    begin = 0
    for left_place, a in left:
        while begin < len(right) and right[begin][1].stime < a.stime - operator.window:
            begin += 1
        for right_place, b in right[begin:]:
            if b.stime > a.stime + operator.window:
                break
            if match(a, b):
                order = max(left_place, right_place), min(left_place, right_place)
                pairs.append((order, Row(max(a.stime, b.stime), a.key, (a.value, b.value))))
    return [[row for _, row in sorted(pairs, key=lambda pair: pair[0])]]


def _window(operator: WindowAggregate, inputs: list[Rows], end: int) -> list[Rows]:
    rows, slide = inputs[0], operator.slide
    if operator.size is None:
        return [_landmark(operator, rows, end)]
    if not rows:
        return [[]]
    anchor = rows[0].stime if operator.anchored else 0
    contents: dict[int, dict[Hashable, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        first = anchor + ((row.stime - anchor) // slide + 1) * slide
        for over in range(first, row.stime + operator.size + 1, slide):
            contents[over][row.key].append(row.value)
    whole = anchor + operator.size if operator.anchored else 0
    return [
        [
            Row(over - 1, key, _aggregate(operator.monoid, contents[over][key]))
            for over in sorted(contents)
            if whole <= over <= end
            for key in sorted(contents[over], key=ascii)
        ]
    ]


def _landmark(operator: WindowAggregate, rows: Rows, end: int) -> Rows:
    monoid, states = operator.monoid, dict[Hashable, Any]()
    left = deque(rows)
    answers = []
    for over in range(operator.slide, end + 1, operator.slide):
        while left and left[0].stime < over:
            row = left.popleft()
            state = monoid.lift(row.value)
            states[row.key] = monoid.combine(states[row.key], state) if row.key in states else state
        answers += [
            Row(over - 1, key, monoid.lower(states[key])) for key in sorted(states, key=ascii)
        ]
    return answers


def _count_window(operator: CountWindow, inputs: list[Rows], end: int) -> list[Rows]:
    seen: dict[Hashable, list[Any]] = defaultdict(list)
    answers = []
    for row in inputs[0]:
        seen[row.key].append(row.value)
        newest = seen[row.key][-operator.rows :]
        answers.append(Row(row.stime, row.key, _aggregate(operator.monoid, newest)))
    return [answers]


def _sort(operator: Sort, inputs: list[Rows], end: int) -> list[Rows]:
    held: Rows = []
    sent = []
    for row in inputs[0]:
        held.append(row)
        if len(held) > operator.rows:
            least = min(held, key=operator.by)
            held.remove(least)
            sent.append(Row(row.stime, least.key, least.value))
    return [sent]


def _aggregate(monoid: Monoid[Any, Any, Any], values: list[Any]) -> Any:
    return monoid.lower(reduce(monoid.combine, map(monoid.lift, values)))


_CALCULATIONS: dict[type, Callable[[Any, list[Rows], int], list[Rows]]] = {
    Filter: _filter,
    Map: _map,
    Merge: _merge,
    OrderedJoin: _join,
    WindowAggregate: _window,
    CountWindow: _count_window,
    Sort: _sort,
}
