"""Joining neighbours: the same aggregate in half the leaves, whatever happened before and after."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from holdfast.windows import Amta, MemoryStore, open_window
from holdfast.windows.approximation.coarsening import coarsen
from holdfast.windows.monoid import HOLE
from holdfast.windows.pairs import MemoryPairs
from holdfast.windows.policies import value_bound
from holdfast.windows.shard.shelves import MemoryShelf, ShelvedPairs
from tests.windows.counting import (
    CONCATENATION,
    SUM,
    Counted,
    TrippedError,
    Tripwire,
    filled,
)

Saver = Callable[[], None]
Made = tuple[Amta[Any, Any, Any], Saver]


def in_memory(_random: Random) -> Made:
    return Amta(CONCATENATION), lambda: None


def on_a_shelf(_random: Random) -> Made:
    pairs: ShelvedPairs[Any] = ShelvedPairs(MemoryShelf())
    return Amta(CONCATENATION, pairs=pairs), pairs.save


def in_a_store(random: Random) -> Made:
    window = open_window(
        CONCATENATION, MemoryStore(), "coarse", buffer=random.randint(1, 8), cache=4
    )
    return window, window.checkpoint


def as_a_fork(random: Random) -> Made:
    return Amta(CONCATENATION).fork(), lambda: None


@pytest.mark.parametrize("make", [in_memory, on_a_shelf, in_a_store, as_a_fork])
@pytest.mark.parametrize("seed", range(25))
def test_leaves_and_answers_are_those_of_a_list_of_buckets(
    make: Callable[[Random], Made], seed: int
) -> None:
    random = Random(seed)
    window, save = make(random)
    model: list[list[str]] = []
    for step in range(400):
        match random.choices(["insert", "fold", "evict", "slide", "coarsen", "save"], WEIGHTS)[0]:
            case "insert":
                window.insert(_letter(step))
                model.append([_letter(step)])
            case "fold":
                window.fold(_letter(step))
                model[-1:] = [[*(model[-1] if model else []), _letter(step)]]
            case "evict":
                count = random.randint(0, min(len(model), random.choice([1, 1, 2, 20])))
                window.evict(count)
                del model[:count]
            case "slide":
                most = random.randint(1, 60)
                window.slide(value_bound(most, len))
                while len(model) > 1 and sum(map(len, model)) > most:
                    del model[0]
            case "coarsen":
                before = len(window)
                coarsen(window)
                model = _joined(model, [_text(bucket) for bucket in window.leaves()])
                assert len(model) <= before // 2 + 1
            case "save":
                save()
        assert [_text(bucket) for bucket in window.leaves()] == ["".join(each) for each in model]
        total = window.aggregate()
        assert ("" if total is HOLE else _text(total)) == "".join(map("".join, model))


WEIGHTS = [12, 6, 4, 2, 2, 2]


def _letter(step: int) -> str:
    return chr(0x4E00 + step)


def _text(state: Any) -> str:
    return str(state)


def _joined(model: list[list[str]], leaves: list[str]) -> list[list[str]]:
    """The model with neighbours joined as the window did; each leaf must be one or two of them."""
    rest = list(model)
    joined = []
    for leaf in leaves:
        bucket = rest.pop(0)
        if len(leaf) > len(bucket):
            bucket = bucket + rest.pop(0)
        assert "".join(bucket) == leaf
        joined.append(bucket)
    assert not rest
    return joined


def test_the_example_of_the_digest() -> None:
    window = filled(Amta(SUM), [1, 2, 1, 2, 1, 2])
    coarsen(window)
    window.insert(1)
    assert window.forest() == [[(3, 3), (3, 1)], [(6, HOLE)]]
    assert window.aggregate() == 10


def test_a_level_is_given_up_by_few_combines() -> None:
    for size in (2**10, 2**14, 2**17):
        counted = Counted(SUM)
        window = filled(Amta(counted.monoid), range(size + 3))
        window.evict(3)
        counted.spent()
        coarsen(window)
        assert counted.spent() <= 4 * size.bit_length()
        assert size // 2 <= len(window) <= size // 2 + 1


def test_nothing_of_the_old_level_stays_in_memory_or_on_the_shelf() -> None:
    memory: MemoryPairs[Any] = MemoryPairs()
    shelf = MemoryShelf()
    pairs: ShelvedPairs[Any] = ShelvedPairs(shelf)
    for window in (Amta(SUM, pairs=memory), Amta(SUM, pairs=pairs)):
        for _ in range(200):
            filled(window, range(64 - len(window)))
            pairs.save()
            coarsen(window)
    pairs.save()
    assert memory.held() <= 64
    assert len(shelf.records) <= 64


def test_a_combine_that_raises_changes_nothing() -> None:
    tripwire = Tripwire()
    window = filled(Amta(tripwire.monoid(CONCATENATION)), "abcdefghijk")
    window.evict(3)
    calls = 0
    while True:
        tripwire.arm(calls)
        try:
            coarsen(window)
        except TrippedError:
            tripwire.disarm()
            assert list(window.leaves()) == list("defghijk")
            assert window.result() == "defghijk"
            calls += 1
        else:
            break
    tripwire.disarm()
    assert calls > 1
    assert "".join(window.leaves()) == window.result() == "defghijk"
    assert len(window) < 8
