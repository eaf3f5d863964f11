"""Work of the gate per event, in bytecode instructions: the same however long a failure is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from holdfast.pipeline.gates.order import Delays, Order
from holdfast.pipeline.machine.tuples import Row, Segment

SIZE, DELAY, LAG = 10, 30, 2


def operations(work: Callable[[], object]) -> int:
    """How many instructions of Python it takes, in all frames below it."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def bring(gate: Order, stream: str, bucket: int) -> None:
    start, end = bucket * SIZE, (bucket + 1) * SIZE
    rows = (Row(start, "x", bucket),)
    gate.take(stream, Segment(start, end, rows), end + LAG)


def preview(gate: Order, bucket: int) -> None:
    now = (bucket + 1) * SIZE + 2 * DELAY
    assert gate.due(correcting=False) <= now
    gate.fork_done(gate.next_preview(now, correcting=False, most=64))


def fail(buckets: int, *, previews: bool) -> tuple[Order, int]:
    """A gate whose second input has been away for so many buckets, and its next bucket."""
    gate = Order(("a", "b"), SIZE, Delays(DELAY), 0)
    for bucket in range(5):
        bring(gate, "a", bucket)
        bring(gate, "b", bucket)
        stretch = gate.next_stable()
        assert stretch is not None
        gate.base_done(stretch)
        gate.forget(gate.base)
    for bucket in range(5, 5 + buckets):
        bring(gate, "a", bucket)
        if previews:
            preview(gate, bucket)
    return gate, 5 + buckets


def one_event(gate: Order, bucket: int, previews: bool) -> dict[str, int]:
    counts = {"take": operations(lambda: bring(gate, "a", bucket))}
    now = (bucket + 1) * SIZE + LAG
    counts["look at the clock"] = operations(lambda: gate.due(correcting=False))
    if previews:
        counts["preview"] = operations(lambda: preview(gate, bucket))
    back = Segment(5 * SIZE, 6 * SIZE, (Row(5 * SIZE, "y", 0),))
    counts["take of the other"] = operations(lambda: gate.take("b", back, now))
    counts["choose"] = operations(gate.next_stable)
    stretch = gate.next_stable()
    assert stretch is not None
    assert stretch.stop == 6
    counts["process"] = operations(lambda: gate.base_done(stretch))
    counts["forget"] = operations(lambda: gate.forget(gate.base))
    return counts


@pytest.mark.parametrize("previews", [True, False])
def test_the_work_per_event_does_not_grow_with_the_failure(previews: bool) -> None:
    short = one_event(*fail(300, previews=previews), previews)
    long = one_event(*fail(3_000, previews=previews), previews)
    for what, count in long.items():
        assert count <= short[what] + 40, f"{what}: {short[what]} after 300, {count} after 3,000"


def test_what_is_noted_of_arrivals_does_not_grow_while_previews_are_made() -> None:
    gate, _ = fail(3_000, previews=True)
    assert all(len(marks) <= 2 for marks in gate._marks.values())
