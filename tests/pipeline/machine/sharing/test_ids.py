"""Ids are the same whoever gives them."""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import TupleId


def test_one_that_becomes_one_keeps_its_id() -> None:
    tuple_id = TupleId("s", 7, (2,))
    assert tuple_id.derived(1) == (tuple_id,)
    assert tuple_id.derived(0) == ()


def test_those_of_a_split_get_their_place_and_never_meet() -> None:
    first, second = TupleId("s", 7).derived(2)
    assert first == TupleId("s", 7, (0,))
    assert len({*first.derived(3), *second.derived(3), first, second}) == 8
    assert TupleId("s", 7).derived(2) == (first, second)
