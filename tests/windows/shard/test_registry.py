"""The keys of a shard window: found, forgotten, read back, and kept apart between forks."""

from typing import Any

import numpy as np
import pytest

from tests.windows.shard.model import answers, total


def test_keys_come_go_and_return() -> None:
    window = total(2, 1)
    window.add([0, 1, 5], ["a", "b", "a"], v=[1, 2, 4])
    assert answers(window.advance(9)) == [
        (1, {"a": 1}),
        (2, {"a": 1, "b": 2}),
        (3, {"b": 2}),
        (6, {"a": 4}),
        (7, {"a": 4}),
    ]
    assert window.keys == 0


@pytest.mark.parametrize(
    "keys",
    [
        [None, 1, "1", (1, "x"), 2.5, 10**30],
        np.array([5, 2**62, -(2**63), 0], np.int64),
        np.array([5, 2**64 - 1, 0], np.uint64),
        np.array(["b", "a", "ccc"]),
        np.array([1.5, -0.5]),
        np.array([True, False]),
        np.array(["2020-01-01T00:00:00.000000001", "2021"], "M8[ns]"),
    ],
    ids=["objects", "int64", "uint64", "strings", "floats", "bools", "datetimes"],
)
def test_any_hashable_is_a_key_and_comes_back_as_it_was(keys: Any) -> None:
    window = total(2, 1)
    for time in (0, 1):
        window.add([time] * len(keys), keys, v=[1] * len(keys))
    emission = window.advance(2)[-1]
    assert list(emission.keys) == list(keys)
    assert emission["total"].tolist() == [2] * len(keys)


def test_int_keys_come_back_as_int64_and_mixed_ones_as_objects() -> None:
    window = total(1, 1)
    window.add([0, 0], [7, 3], v=[1, 2])
    window.add([1], ["x"], v=[1])
    window.add([2], [2**70], v=[1])
    ints, mixed, big = window.advance(3)
    assert ints.keys.dtype == np.int64
    assert mixed.keys.dtype == object
    assert big.keys.tolist() == [2**70]


def test_equal_keys_are_one_key_however_they_are_handed_in() -> None:
    window = total(1, 1)
    window.add([0, 0], np.array([1, 2]), v=[1, 1])
    window.add([0, 0], [1, 2], v=[1, 1])
    window.add([0, 0], np.array([1, 2], np.uint8), v=[1, 1])
    window.add([0, 0], np.array([1.0, 2.0]), v=[1, 1])
    window.add([0, 0], np.array([1, 2], object), v=[1, 1])
    assert answers(window.advance(1)) == [(1, {1: 5, 2: 5})]


def test_int_keys_are_found_however_far_apart_they_lie() -> None:
    window = total(1, 1)
    ends = [-(2**63), 2**63 - 1]
    batches = [[5, 6, 7], [6, *ends], [8, 5, 10**6], [*ends, 4, -3], [9, 10**6, -3, 2000]]
    counts: dict[int, int] = {}
    for batch in batches:
        window.add(np.zeros(len(batch), int), np.array(batch), v=np.ones(len(batch), int))
        for key in batch:
            counts[key] = counts.get(key, 0) + 1
    assert answers(window.advance(1)) == [(1, counts)]


def test_keys_that_have_left_are_forgotten_and_those_that_stay_are_not() -> None:
    window = total(4, 1)
    for time in range(500):
        keys = np.append(np.arange(time * 20, time * 20 + 20), -1)
        window.add(np.full(21, time), keys, v=keys)
        (emission,) = window.advance(time + 1)
        first = max(0, time - 3) * 20
        expected = {-1: min(time + 1, 4) * -1, **{k: k for k in range(first, time * 20 + 20)}}
        assert answers([emission]) == [(time + 1, expected)]
        assert window.stats.registered <= 64 + 2 * 81 + 21
    window.advance(1000)
    assert window.stats.registered <= 64
    assert window.keys == 0


def test_a_crowd_of_keys_that_left_is_forgotten_though_no_new_key_comes() -> None:
    window = total(2, 1)
    window.add(np.zeros(5000, int), np.arange(5000), v=np.ones(5000, int))
    for time in range(6):
        window.add([time], [17], v=[1])
        window.advance(time + 1)
    assert window.stats.registered <= 64 + 2
    window.add([6], [4000], v=[3])
    assert answers(window.advance(7)) == [(7, {17: 1, 4000: 3})]


def test_keys_are_forgotten_though_many_open_panes_name_the_same_ones() -> None:
    window = total(1, 1)
    ahead = np.repeat(np.arange(1000, 1050), 40)
    window.add(ahead, np.tile(np.arange(40), 50), v=ahead)
    for time in range(20):
        window.add(np.full(100, time), np.arange(100) + (time + 1) * 1000, v=np.ones(100, int))
        window.advance(time + 1)
        assert window.stats.registered <= 64 + 2 * 140 + 100


def test_the_same_batch_of_keys_is_new_after_they_were_forgotten() -> None:
    window = total(1, 1)
    keys = np.arange(100)
    window.add(np.zeros(100, int), keys, v=keys)
    window.advance(50)
    assert window.stats.registered == 0
    window.add(np.full(50, 60), keys[50:], v=keys[50:])
    window.add(np.full(100, 60), keys, v=keys)
    expected = {key: key if key < 50 else 2 * key for key in range(100)}
    assert answers(window.advance(61)) == [(61, expected)]
    window.advance(100)
    window.add(np.full(100, 100), keys, v=keys)
    assert answers(window.advance(101)) == [(101, {key: key for key in range(100)})]


def test_an_array_of_keys_may_be_filled_anew_for_the_next_batch() -> None:
    window = total(1, 1)
    keys = np.array([1, 2])
    window.add([0, 0], keys, v=[1, 2])
    keys[:] = [3, 4]
    window.add([0, 0], keys, v=[3, 4])
    assert answers(window.advance(1)) == [(1, {1: 1, 2: 2, 3: 3, 4: 4})]


def test_results_with_the_same_keys_share_them() -> None:
    window = total(2, 1)
    emissions = []
    for time in range(9):
        window.add([time, time], ["a", "b"], v=[1, 2])
        emissions += window.advance(time + 1)
    assert emissions[-1].keys is emissions[0].keys


def test_a_result_can_be_read_after_its_keys_were_forgotten() -> None:
    window = total(1, 1)
    window.add(np.zeros(300, int), [f"k{i}" for i in range(300)], v=np.arange(300))
    emissions = window.advance(1)
    for time in range(1, 5):
        window.add([time], ["other"], v=[1])
        window.advance(time + 1)
    assert window.stats.registered <= 66
    assert answers(emissions) == [(1, {f"k{i}": i for i in range(300)})]


# Forks


def test_a_fork_and_its_base_give_the_same_numbers_to_different_keys() -> None:
    base = total(4, 1)
    base.add([0], ["shared"], v=[1])
    base.advance(1)
    fork = base.fork()
    base.add([1, 1], ["b1", "b2"], v=[2, 3])
    fork.add([1, 1], ["f1", "b2"], v=[4, 5])
    assert (base.stats.registered, fork.stats.registered) == (3, 3)
    assert answers(base.advance(2)) == [(2, {"shared": 1, "b1": 2, "b2": 3})]
    assert answers(fork.advance(2)) == [(2, {"shared": 1, "f1": 4, "b2": 5})]
    assert base.advance(2) == []


def test_int_keys_of_a_fork_are_not_mistaken_for_those_of_its_base() -> None:
    base = total(4, 1)
    base.add([0, 0], np.array([1, 2]), v=[1, 2])
    forks = [base.fork(), base.fork()]
    for number, window in enumerate((base, *forks), start=3):
        window.add([0], np.array([number]), v=[number])
        window.add([0, 0, 0], np.array([3, 4, 5]), v=[10, 20, 30])
    for number, window in enumerate((base, *forks), start=3):
        expected = {1: 1, 2: 2, 3: 10, 4: 20, 5: 30}
        expected[number] += number
        assert answers(window.advance(1)) == [(1, expected)]


def test_a_fork_remembers_keys_that_its_base_has_forgotten() -> None:
    base = total(3, 1)
    base.add(np.zeros(200, int), np.arange(200), v=np.arange(200))
    base.advance(1)
    fork = base.fork()
    base.add([50], [7], v=[1])
    base.advance(100)
    assert base.stats.registered <= 64
    fork.add([1], [199], v=[1])
    expected = {key: key for key in range(199)} | {199: 200}
    assert answers(fork.advance(2)) == [(2, expected)]
