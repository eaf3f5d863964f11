"""A mark is what all those above agree on."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Book, Operator, Plan
from holdfast.pipeline.machine.sharing.tables import Marks, SharedTable

PLAN = Plan(
    [
        Operator("s", ("s/0",), ("a",)),
        Operator("t", ("t/0",), ("b",)),
        Operator("a", ("a/0", "a/1"), ("b",)),
        Operator("b", ("b/0", "b/1"), ("sink",)),
        Operator("sink", ("sink/0",)),
    ]
)


def make(operator: str) -> tuple[Marks, SharedTable, dict[str, Book]]:
    table = SharedTable()
    books = {name: Book(PLAN.replicas(name)) for name in PLAN.near(operator)}
    return Marks(PLAN, operator, books, table), table, books


def test_the_slowest_counts() -> None:
    marks, table, _ = make("b")
    marks.take("a/0", [("s/0", 9)])
    assert table.mark("s/0") == 0
    marks.take("a/1", [("s/0", 4)])
    assert table.mark("s/0") == 4


def test_those_who_are_fenced_do_not_count_and_a_mark_never_falls() -> None:
    marks, table, books = make("b")
    marks.take("a/0", [("s/0", 9)])
    marks.take("a/1", [("s/0", 4)])
    books["a"].take("a/0", 0, [1])
    marks.look()
    assert table.mark("s/0") == 9
    books["a"].take("a/1", 1, [1])
    marks.look()
    assert table.mark("s/0") == 9


def test_a_source_speaks_for_itself_only() -> None:
    marks, table, _ = make("b")
    marks.take("t/0", [("t/0", 3), ("s/0", 99), ("x", 1)])
    assert table.mark("t/0") == 3
    assert table.mark("s/0") == 0
