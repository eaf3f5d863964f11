"""The oracle itself, by examples worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.pipeline.machine.tuples import Row
from holdfast.windows import monoids as m
from simulator.diagram import (
    CountWindow,
    Diagram,
    Filter,
    Join,
    Map,
    Placed,
    Sort,
    Union,
    WindowAggregate,
    rewrite,
)
from simulator.recalculation import recalculate

A = [Row(1, "x", 1), Row(4, "y", 2), Row(4, "x", 3), Row(12, "x", 4)]
B = [Row(1, "x", 10), Row(4, "x", 20), Row(9, "y", 30)]


def calculate(operator: Any, *inputs: list[Row], until: int = 20) -> dict[str, list[Row]]:
    names = tuple("ab"[: len(inputs)])
    outputs = ("yes", "no") if isinstance(operator, Filter) else ("out",)
    plans = rewrite(Diagram(names, (Placed("out", operator, names, "one"),), outputs))
    return recalculate(plans, dict(zip(names, inputs, strict=True)), size=5, until=until)


def test_streams_merge_by_time_then_input_then_place() -> None:
    merged = calculate(Union(), A, B)["out"]
    assert merged == [A[0], B[0], A[1], A[2], B[1], B[2], A[3]]


def test_a_filter_is_a_case_statement() -> None:
    cases = Filter((("yes", lambda row: row.value > 2),), no_match="no")
    assert calculate(cases, A)["yes"] == A[2:]
    assert calculate(cases, A)["no"] == A[:2]


def test_map_keeps_the_time() -> None:
    mapped = calculate(Map(lambda row: (row.value, row.key)), A)["out"]
    assert mapped == [Row(1, 1, "x"), Row(4, 2, "y"), Row(4, 3, "x"), Row(12, 4, "x")]


def test_a_join_pairs_each_row_with_those_before_it() -> None:
    assert calculate(Join(8), A, B)["out"] == [
        Row(1, "x", (1, 10)),
        Row(4, "x", (3, 10)),
        Row(4, "x", (1, 20)),
        Row(4, "x", (3, 20)),
        Row(9, "y", (2, 30)),
        Row(12, "x", (4, 20)),
    ]
    assert calculate(Join(0), A, B)["out"] == [Row(1, "x", (1, 10)), Row(4, "x", (3, 20))]


def test_a_join_by_predicate_has_the_left_key() -> None:
    doubled = Join(10, lambda left, right: right.value == 10 * left.value)
    assert calculate(doubled, A, B)["out"] == [
        Row(1, "x", (1, 10)),
        Row(4, "y", (2, 20)),
        Row(9, "x", (3, 30)),
    ]


def test_count_windows_and_sorting() -> None:
    counted = calculate(CountWindow(2, m.sum), A)["out"]
    assert counted == [Row(1, "x", 1), Row(4, "y", 2), Row(4, "x", 4), Row(12, "x", 7)]
    swapped = calculate(Sort(1, lambda row: -row.value), A)["out"]
    assert swapped == [Row(4, "y", 2), Row(4, "x", 3), Row(12, "x", 4)]


def test_sliding_windows_end_at_multiples_of_the_slide() -> None:
    rows = [Row(217, "x", 1), Row(231, "x", 2)]
    out = calculate(WindowAggregate(30, 10, m.sum), rows, until=300)["out"]
    assert out == [
        Row(219, "x", 1),
        Row(229, "x", 1),
        Row(239, "x", 3),
        Row(249, "x", 2),
        Row(259, "x", 2),
    ]


def test_only_whole_buckets_before_the_end_count() -> None:
    streams = calculate(Union(), A, B, until=14)
    assert streams["out"] == [A[0], B[0], A[1], A[2], B[1], B[2]]
    assert streams["a"] == A[:3]


def clock(time: str) -> int:
    hours, minutes = time.split(":")
    return 60 * int(hours) + int(minutes)


TEMPERATURES = [
    Row(clock(time), None, value)
    for time, value in [
        ("1:16", 68),
        ("1:21", 69),
        ("1:25", 70),
        ("1:29", 68),
        ("1:35", 67),
        ("1:41", 67),
    ]
]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (WindowAggregate(10, 10, m.mean), [("1:10", 68), ("1:20", 69), ("1:30", 67)]),
        (WindowAggregate(10, 10, m.mean, anchored=True), [("1:16", 69), ("1:26", 67.5)]),
    ],
)
def test_the_worked_example(window: WindowAggregate, expected: list[tuple[str, float]]) -> None:
    """Digest §1.2, whose windows are called by where they begin."""
    assert window.size is not None
    answers = calculate(window, TEMPERATURES, until=clock("1:40"))["out"]
    assert [(row.stime + 1 - window.size, row.value) for row in answers] == [
        (clock(time), value) for time, value in expected
    ]


def test_the_worked_example_of_a_landmark() -> None:
    out = calculate(WindowAggregate(None, 1, m.mean), TEMPERATURES, until=clock("1:45"))["out"]
    answers = {row.stime: round(row.value, 2) for row in out}
    running = [answers[row.stime] for row in TEMPERATURES]
    assert running == [68, 68.5, 69, 68.75, 68.4, 68.17]
