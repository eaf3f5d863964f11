"""What the tables know, what they forget, and that they forget nothing that is needed."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.pipeline.machine.sharing import Rules, TupleId
from holdfast.pipeline.machine.sharing.tables import (
    BUSY,
    DeliveryTable,
    Holder,
    Kept,
    SharedTable,
    Standing,
)

ME = Holder("a/0", 0)


def of(number: int, *path: int) -> TupleId:
    return TupleId("s", number, path)


def test_what_is_done_stays_done() -> None:
    table = SharedTable()
    assert table.standing(of(1)) is Standing.UNKNOWN
    table.record(of(1), ME)
    assert table.standing(of(1)) is Standing.PENDING
    table.purge(of(1))
    table.record(of(1), ME)
    assert table.standing(of(1)) is Standing.DONE
    assert table.standing(of(1, 0)) is Standing.UNKNOWN


def test_up_to_the_mark_what_is_in_no_table_is_done() -> None:
    table = SharedTable()
    table.record(of(2), ME)
    table.purge(of(3))
    table.raise_mark("s", 4)
    assert table.standing(of(2)) is Standing.PENDING, "a mark says nothing of what is in hand"
    assert table.standing(of(4)) is Standing.DONE
    assert table.standing(of(5)) is Standing.UNKNOWN
    assert len(table) == 1
    assert list(table.done) == []


def test_the_passed_end_before_the_oldest_that_is_pending() -> None:
    table = SharedTable()
    table.raise_mark("s", 9)
    assert table.passed("s") == 9
    for tuple_id in (of(7, 0), of(7, 1), of(8)):
        table.record(tuple_id, ME)
    assert table.passed("s") == 9, "what is done stays done"
    table = SharedTable()
    for tuple_id in (of(7, 0), of(7, 1), of(8)):
        table.record(tuple_id, ME)
    table.raise_mark("s", 9)
    assert table.passed("s") == 6
    table.purge(of(7, 0))
    assert table.passed("s") == 6
    assert table.is_open(of(7, 5)), "something of the same tuple is pending"
    table.purge(of(7, 1))
    assert table.passed("s") == 7
    assert not table.is_open(of(7))
    assert table.passed("other") == table.mark("other") == 0


def test_a_mark_that_leaps_costs_no_time() -> None:
    table = SharedTable()
    table.purge(of(5))
    table.raise_mark("s", 10**15)
    table.raise_mark("s", 3)
    assert table.mark("s") == 10**15
    assert len(table) == 0


def test_what_is_far_ahead_is_not_taken() -> None:
    table = SharedTable()
    assert table.is_far(of(11), 10)
    assert not table.is_far(of(10), 10)
    table.raise_mark("s", 1)
    assert not table.is_far(of(11), 10)


@pytest.mark.parametrize("seed", range(20))
def test_a_table_that_forgets_knows_as_much_as_one_that_does_not(seed: int) -> None:
    random = Random(seed)
    table, pending, done = SharedTable(), set(), set()
    for _ in range(400):
        tuple_id = of(random.randint(1, 40), *random.choice([(), (0,), (1,)]))
        match random.choice(["record", "purge", "mark"]):
            case "record":
                table.record(tuple_id, ME)
                pending |= {tuple_id} - done
            case "purge":
                table.purge(tuple_id)
                pending.discard(tuple_id)
                done.add(tuple_id)
            case _:
                known = {each.number for each in pending | done}
                mark = next(n for n in range(1, 99) if n not in known) - 1
                table.raise_mark("s", mark)
                done |= {of(n, *p) for n in range(1, mark + 1) for p in ((), (0,), (1,))} - pending
        for number in range(1, 41):
            for path in ((), (0,), (1,)):
                each = of(number, *path)
                expected = Standing.PENDING if each in pending else Standing.UNKNOWN
                assert table.standing(each) is (Standing.DONE if each in done else expected)
        assert len(table) == len(table.pending) + len(list(table.done))


def test_pending_records_can_be_forgotten() -> None:
    table = SharedTable()
    table.record(of(3), ME)
    table.purge(of(4))
    table.forget_pending()
    assert table.standing(of(3)) is Standing.UNKNOWN
    assert table.standing(of(4)) is Standing.DONE
    assert not table.is_open(of(3))


def kept(number: int, now: int = 0) -> Kept:
    return Kept(of(number), "value", "b", 0, of(number), now + 100)


def test_a_tuple_is_kept_until_it_is_safe_far_enough() -> None:
    table = DeliveryTable(Rules(hops=2, retry=100, nudge=1000))
    table.keep(kept(1))
    assert table.confirm(of(1), 0, 5) is not None
    assert table.confirm(of(1), 0, 5) is None, "no news"
    assert table.confirm(of(1), 1, 5) is not None
    assert len(table) == 1
    assert table.confirm(of(1), 2, 5) is not None
    assert table.get(of(1)) is None
    assert table.confirm(of(1), 2, 5) is None


def test_what_is_not_answered_is_sent_again_less_and_less_often() -> None:
    table = DeliveryTable(Rules(retry=100, nudge=1000))
    table.keep(kept(1))
    sent = [now for now in range(0, 4000, 50) if table.overdue(now)]
    assert sent == [100, 300, 700, 1500, 2500, 3500]
    table.confirm(of(1), BUSY, 4000)
    assert [now for now in range(4000, 5000, 50) if table.overdue(now)][:2] == [4100, 4300]


def test_what_was_received_is_asked_for_seldom() -> None:
    table = DeliveryTable(Rules(retry=100, nudge=1000))
    table.keep(kept(1))
    table.confirm(of(1), 0, 0)
    assert [now for now in range(0, 3000, 50) if table.overdue(now)] == [1000, 2000]


def test_the_oldest_comes_first() -> None:
    table = DeliveryTable(Rules())
    for number in (1, 2, 3):
        table.keep(kept(number))
    table.confirm(of(1), 1, 0)
    assert table.oldest == of(2)
    assert [each.id for each in table] == [of(2), of(3)]
