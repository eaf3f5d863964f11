"""The costs of records and of copies, on small figures."""

from __future__ import annotations

from benchmarks.sharing import crossover, overhead, table
from benchmarks.sharing.costs import SIZES


def test_records_cost_the_same_whatever_the_size_and_copies_do_not() -> None:
    columns, rows = table()
    assert [row[0] for row in rows] == list(SIZES)
    assert all(len(row) == len(columns) for row in rows)
    assert len({row[1] for row in rows}) == len({row[4] for row in rows}) == 1
    copies = [row[2] for row in rows]
    assert copies == sorted(copies, key=float)
    assert float(str(rows[-1][3])) > 100


def test_tiny_tuples_are_cheaper_copied() -> None:
    size = crossover()
    assert 0 < size < 64
    records, copies = overhead(size - 1, replicas=3, batch=1)
    assert copies <= records


def test_many_at_once_cost_less_each() -> None:
    assert overhead(16, replicas=3, batch=100)[0] < overhead(16, replicas=3, batch=1)[0] / 2
