"""Shard windows in a store: resumed with their keys, open panes and what had not been answered."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import StoreError
from holdfast.windows import MemoryStore, ShardWindow, Store, open_window
from holdfast.windows import monoids as m
from holdfast.windows.approximation import max_error, max_leaves
from holdfast.windows.shard.emission import Emission
from holdfast.windows.shard.panes import Span
from tests.windows.stores.faulty import FlakyStore, Killed, Killer

SPEC = {"total": (m.sum, "v"), "list": (m.collect, "v"), "n": (m.count, None)}
KINDS: dict[str, dict[str, Any]] = {
    "exact": {},
    "three spans": {"more": (Span(8, 2), Span(3, 1))},
    "lingering": {"linger": 15},
    "few leaves": {"approximate": max_leaves(6)},
    "bounded": {"approximate": [max_error("10%"), max_leaves(20)]},
}


def stored(store: Store, kind: dict[str, Any], spec: Any = SPEC) -> ShardWindow:
    opened = partial(open_window, store=store, window="shard", buffer=6, cache=4)
    return ShardWindow(spec, 30, 1, open_amta=opened, **kind)


def note(answers: dict[Any, Any], emissions: list[Emission]) -> None:
    """Windows that are answered again are answered as before."""
    for each in emissions:
        idle = each.names.list(each.idle)
        rows = [each.keys.tolist(), *(each[name].tolist() for name in SPEC)]
        certain = None if each.certain is None else each.certain.tolist()
        answer = (rows, idle, certain)
        assert answers.setdefault((each.span, each.start, each.end), answer) == answer


def events(random: Random) -> list[tuple[str, Any]]:
    made: list[tuple[str, Any]] = []
    now = 0
    for _ in range(70):
        times = [now + random.randrange(-6, 6) for _ in range(random.randrange(1, 6))]
        rows = [(time, random.choice("abcdefgh"), random.randrange(100)) for time in times]
        made.append(("add", rows))
        if random.random() < 0.6:
            now += random.choice([0, 1, 1, 2, 3, 3, 40]) if random.random() < 0.9 else 0
            made.append(("advance", now))
    return [*made, ("advance", now + 100)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kills=st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=8),
)
def test_a_shard_killed_anywhere_goes_on_as_if_it_had_not_been(
    kind: str, seed: int, kills: list[tuple[int, bool]]
) -> None:
    made = events(Random(seed))
    plain, expected = ShardWindow(SPEC, 30, 1, **KINDS[kind]), dict[Any, Any]()
    for verb, detail in made:
        note(expected, feed(plain, verb, detail))
    store, seen = Killer(MemoryStore()), dict[Any, Any]()
    window, at = stored(store, KINDS[kind]), 0
    while at < len(made):
        if kills and store.fatal is None:
            store.fatal = store.calls + kills[-1][0], kills.pop()[1]
        try:
            verb, detail = made[at]
            if verb == "add" or window.watermark is None or detail >= window.watermark:
                note(seen, feed(window, verb, detail))
            at += 1
        except Killed:
            store.fatal = None
            window = stored(store, KINDS[kind])
            at, given = 0, 0
            while given < window.position:
                given += len(made[at][1]) if made[at][0] == "add" else 0
                at += 1
            assert given == window.position
    assert seen == expected
    assert window.stats.late == plain.stats.late


def feed(window: ShardWindow, verb: str, detail: Any) -> list[Emission]:
    if verb == "advance":
        return window.advance(detail)
    times, keys, values = zip(*detail, strict=True)
    window.add(list(times), list(keys), v=list(values))
    return []


def test_a_checkpoint_makes_open_panes_durable() -> None:
    store = MemoryStore()
    window = stored(store, {})
    window.add([1, 2, 50], ["a", "b", "c"], v=[1, 2, 3])
    window.advance(3)
    window.checkpoint()
    again = stored(store, {})
    assert (again.position, again.watermark, again.keys) == (3, 3, 3)
    seen, expected = dict[Any, Any](), dict[Any, Any]()
    note(seen, again.advance(100))
    note(expected, window.advance(100))
    assert seen == expected


def test_a_fork_that_outlives_its_base_is_what_is_resumed() -> None:
    store = MemoryStore()
    window = stored(store, {})
    window.add([1], ["a"], v=[1])
    window.advance(3)
    fork = window.fork()
    fork.add([5], ["z"], v=[9])
    window.drop()
    fork.checkpoint()
    assert stored(store, {}).keys == 2


def test_a_shard_of_another_kind_is_refused() -> None:
    store = FlakyStore(MemoryStore())
    stored(store, {}).checkpoint()
    for kind, spec in (({"linger": 3}, SPEC), ({}, {"total": (m.max, "v")})):
        with pytest.raises(StoreError, match="another name"):
            stored(store, kind, spec)
