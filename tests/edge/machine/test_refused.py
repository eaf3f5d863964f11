"""Events that no query can take are refused and counted; nothing that comes in ends a child."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from holdfast.edge.machine.messages import Events, Query
from holdfast.edge.machine.sensor import SensorOptions
from tests.edge.machine.rig import COUNT, Rig

KEYED = Query("by key", "sum", 1_000, 1_000, keyed=True)
NAN, INF = float("nan"), float("inf")


def emit(rig: Rig, values: list[Any], keys: list[Any] | None, *, time: int = 100) -> None:
    times = [time + at for at in range(len(values))]
    _, sends = rig.sensor().emit(times, values, keys, rig.now)
    rig.do("s0", sends)


def windows(rig: Rig, query: str) -> list[Any]:
    rig.advance(2_500)
    rig.step(until=lambda: len([each for each in rig.windows if each.query == query]) > 1)
    return [each for each in rig.windows if each.query == query]


def test_events_without_a_key_are_refused_by_a_keyed_query_only() -> None:
    rig = Rig(queries=(COUNT, KEYED))
    emit(rig, [1.0, 2.0, 3.0, 4.0], None)
    counts, keyed = windows(rig, "count"), windows(rig, "by key")
    assert [each.answer for each in counts] == [4, None]
    assert [(each.complete, each.refused) for each in counts] == [(True, 0), (True, 0)]
    assert [each.answer for each in keyed] == [{}, {}]
    assert [(each.complete, each.missing, each.refused) for each in keyed] == [
        (False, 4, 4),
        (True, 0, 0),
    ]
    refused = [rig.child(name).intake.refused for name in ("c0", "c1", "c2")]
    assert sum(refused, start=Counter()) == {("s0", "no key"): 4}


def test_events_with_and_without_a_key_are_told_apart() -> None:
    rig = Rig(queries=(KEYED,))
    emit(rig, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], ["a", None, "a", None, "b", "a"])
    first, _ = windows(rig, "by key")
    assert first.answer == {"a": 10.0, "b": 5.0}
    assert (first.complete, first.missing, first.refused) == (False, 2, 2)


@pytest.mark.parametrize(
    "key",
    [["a", "b"], {"a": 1}, [["a"], ["b"]], b"bytes", NAN, 2**64, "\ud800", "x" * 10_000, object()],
)
def test_a_sensor_rejects_keys_that_are_none(key: Any) -> None:
    rig = Rig(queries=(COUNT, KEYED))
    emit(rig, [1.0, 2.0, 3.0], ["a", key, "b"])
    emit(rig, [1.0, 2.0], [key, key], time=200)
    assert rig.sensor().rejected == 3
    assert rig.sensor().rejections == {"invalid key": 3}
    first, _ = windows(rig, "by key")
    assert first.answer == {"a": 1.0, "b": 3.0}
    assert (first.complete, first.missing, first.refused) == (True, 0, 3)


def test_a_sensor_rejects_what_is_no_number() -> None:
    rig = Rig(queries=(COUNT,))
    emit(rig, [1.0, NAN, INF, -INF, 1e308], None)
    assert rig.sensor().rejections == {"not a number": 1}
    first, _ = windows(rig, "count")
    assert (first.answer, first.complete, first.refused) == (4, True, 1)


POISON: list[tuple[list[float], Any]] = [
    ([1.0, 2.0], None),
    ([1.0, 2.0], [["a", "b"], ["c", "d"]]),
    ([1.0, 2.0], [{"a": 1}, None]),
    ([1.0, 2.0], [b"a", "x" * 10_000]),
    ([NAN, NAN], ["a", "a"]),
    ([NAN, 1.0], [["a"], NAN]),
]


@pytest.mark.parametrize(("values", "keys"), POISON)
def test_a_child_refuses_what_a_sensor_should_not_have_sent(values: list[float], keys: Any) -> None:
    rig = Rig(children=2, queries=(COUNT, KEYED))
    owner = next(name for name, child in rig.parties.items() if 0 in getattr(child, "owned", ()))
    poison = Events("s0", 0, 1, 1, np.array([100, 101]), np.array(values), 101, keys, newest=101)
    rig.do("s0", rig.child(owner).receive("s0", poison, rig.now))
    slot = rig.child(owner).slots.get(0, "s0")
    assert slot is not None
    assert slot.offset == 2
    # The copy of a peer tells the same, should it take over.
    rig.step(300)
    rig.kill(owner)
    rig.sensor()._routes[0].backlog.append(np.array([100, 101]), np.array(values), None)
    first, second = windows(rig, "by key")
    assert (first.complete, first.missing) == (False, 2)
    assert second.complete
    assert all(value == value for value in first.answer.values())


def test_hashing_takes_events_without_a_key() -> None:
    rig = Rig(queries=(COUNT,), sensor=SensorOptions("hash", capacity=100, pulse=50, retry=100))
    emit(rig, [1.0, 2.0, 3.0], None)
    emit(rig, [1.0, 2.0], [None, "a"], time=200)
    first, _ = windows(rig, "count")
    assert first.answer == 5
