"""`merge` waits for a set of partitions, and lets each count once."""

from __future__ import annotations

from itertools import permutations

import pytest

from holdfast.edge.machine.intermediate import ALL, Merge


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])))
def test_whoever_comes_first_the_order_is_that_of_the_partitions(order: tuple[int, ...]) -> None:
    gate: Merge[str, str] = Merge([0, 1, 2])
    for count, partition in enumerate(order):
        assert not gate.is_complete("p")
        assert gate.offer("p", partition, 1, f"of {partition}")
        assert not gate.offer("p", partition, 1, "the same again"), "a duplicate"
        assert len(gate.held("p")) == count + 1
    assert gate.is_complete("p")
    assert gate.release("p") == ["of 0", "of 1", "of 2"]


def test_many_copies_of_one_do_not_stand_for_another() -> None:
    gate: Merge[str, str] = Merge([0, 1])
    for version in range(5):
        gate.offer("p", 0, version, "x")
    assert not gate.is_complete("p")
    assert not gate.offer("p", 7, 1, "of no partition")


def test_a_newer_version_replaces() -> None:
    gate: Merge[str, str] = Merge([0])
    gate.offer("p", 0, 2, "new")
    assert not gate.offer("p", 0, 1, "old")
    assert gate.release("p") == ["new"]


def test_the_join_of_all_is_enough() -> None:
    gate: Merge[str, str] = Merge([0, 1])
    gate.offer("p", 0, 1, "part")
    assert gate.offer("p", ALL, 1, "whole")
    assert gate.is_complete("p")
    assert gate.release("p") == ["whole"]


def test_older_versions_can_be_refused_and_panes_forgotten() -> None:
    gate: Merge[int, str] = Merge([0])
    for pane in range(3):
        gate.offer(pane, 0, 1, "x")
    gate.refuse(2, lambda pane: pane >= 1)
    assert [gate.is_complete(pane) for pane in range(3)] == [True, False, False]
    gate.forget(lambda pane: pane < 2)
    assert len(gate) == 1
