"""Rows on their way into a source: ordered by a time of theirs, against a plain calculation."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.machine.source import EventClock
from holdfast.pipeline.process.source import EventTimes, stamped

SIZE = 10
TIME = pa.timestamp("us", "UTC")


def rows(times: list[int | None], first: int = 0) -> pa.Table:
    return pa.table(
        {"at": pa.array(times, pa.int64()).cast(TIME), "n": range(first, first + len(times))}
    )


def pairs(table: pa.Table) -> list[tuple[int, int]]:
    times = table["stime"].cast(pa.int64()).to_pylist()
    return list(zip(times, table["n"].to_pylist(), strict=True))


def test_rows_without_a_time_of_their_own_are_stamped() -> None:
    table = stamped(pa.table({"n": [1, 2]}), 1_000_000)
    assert table.schema.field("stime") == pa.field("stime", TIME, nullable=False)
    assert pairs(table) == [(1_000_000, 1), (1_000_000, 2)]


def test_a_bucket_waits_until_no_row_may_come_to_it() -> None:
    times = EventTimes("at", EventClock(SIZE, lateness=5))
    times.take(rows([3, 12]))
    assert list(times.close()) == []
    times.take(rows([1, 15], first=2))
    [(bucket, table)] = times.close()
    assert (bucket, pairs(table)) == (0, [(1, 2), (3, 0)])
    assert times.clock.closed == 10


def test_late_rows_and_rows_without_a_time_are_counted() -> None:
    times = EventTimes("at", EventClock(SIZE))
    times.take(rows([25]))
    assert list(times.close()) == []
    times.take(rows([19, None, 20, None]))
    assert times.late == 3
    assert [pairs(table) for _, table in times.close(finally_=True)] == [[(20, 2), (25, 0)]]
    assert times.clock.closed == 30


def test_rows_of_one_time_stay_in_their_order() -> None:
    times = EventTimes("at", EventClock(SIZE))
    times.take(rows([5] * 100))
    [(_, table)] = times.close(finally_=True)
    assert table["n"].to_pylist() == list(range(100))


@given(
    batches=st.lists(st.lists(st.none() | st.integers(0, 200), max_size=8), max_size=12),
    lateness=st.integers(0, 40),
)
def test_every_row_comes_out_once_in_order_or_is_counted(
    batches: list[list[int | None]], lateness: int
) -> None:
    times = EventTimes("at", EventClock(SIZE, lateness))
    expected: dict[int, list[tuple[int, int]]] = {}
    late = newest = closed = count = 0
    out: list[tuple[int, list[tuple[int, int]]]] = []
    for batch in batches:
        for number, time in enumerate(batch, count):
            if time is None or time < closed:
                late += 1
            else:
                expected.setdefault(time // SIZE, []).append((time, number))
        newest = max([newest, *(t for t in batch if t is not None and t >= closed)])
        closed = max(closed, (newest - lateness) // SIZE * SIZE)
        times.take(rows(batch, count))
        out += [(bucket, pairs(table)) for bucket, table in times.close()]
        assert all((bucket + 1) * SIZE <= closed for bucket, _ in out)
        count += len(batch)
    out += [(bucket, pairs(table)) for bucket, table in times.close(finally_=True)]
    in_time_order = {
        bucket: sorted(some, key=lambda pair: pair[0]) for bucket, some in expected.items()
    }
    assert out == sorted(in_time_order.items())
    assert times.late == late
