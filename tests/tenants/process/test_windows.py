"""Windows in the store: right whatever the batches, after a restart and in a replay."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.tenants.process.engine.fairness import Budget
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.log import Publication
from tests.tenants.process.rig import SHARED, Platform, derived, replay, simple


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path / "store.db")
    yield made
    made.database.close()


def window(**limits: Any) -> dict[str, Any]:
    fields = {
        "total": {"function": "sum", "of": "a.n"},
        "first": {"function": "first", "of": "a.n"},
    }
    return {"aggregate": {"input": "a", **limits, "fields": fields}}


CHANNELS = {"total": "window.total", "first": "window.first", "n": "double(window._count)"}


def record(platform: Platform, path: str) -> list[tuple[str, float, float, float]]:
    return [
        (u.get("key", ""), *(u["values"][name] for name in ("total", "first", "n")))
        for u in platform.updates(path)
    ]


def test_as_recalculated_whatever_the_batches_and_after_restarts(tmp_path: Path) -> None:
    rng = random.Random(5)
    updates, at = [], 0
    for n in range(200):
        at += rng.choice([1, 1, 1, 2, 60])
        updates.append(Publication("ann/o/a", at, {"n": n / 8}, rng.choice("xyz")))
    expected, entered = [], {key: [] for key in "xyz"}
    for each in updates:
        entered[each.key].append(each)
        left = [e for e in entered[each.key] if e.timestamp > each.timestamp - 50][-20:]
        values = [e.values["n"] for e in left]
        expected.append((each.key, sum(values), values[0], float(len(values))))
    made = []
    for batch in (1, 9, 1000):
        platform = Platform(tmp_path / f"{batch}.db", batch)
        platform.put("ann", "o", streams={"a": simple(n="number")})
        recent = derived({"a": "o/a"}, CHANNELS, **window(size="50us", count=20))
        platform.put("ann", "p", streams={"recent": recent})
        platform.log.append(updates)
        for _ in range(5):
            platform.step()
        # Killed, and started again.
        platform.database.close()
        platform = Platform(tmp_path / f"{batch}.db", batch)
        platform.settle()
        assert record(platform, "ann/p/recent") == expected
        made.append(platform.contents())
        platform.database.close()
    assert made[0] == made[1] == made[2]


def test_a_window_of_many_thousands_that_empties_at_once(platform: Platform) -> None:
    platform.planner = Planner(platform.database, Budget(1e9, 2**30, 5000))
    platform.put("ann", "o", streams={"a": simple(n="number")})
    recent = derived({"a": "o/a"}, CHANNELS, **window(size="1h"))
    platform.put("ann", "p", streams={"recent": recent})
    many = 12_000
    platform.log.append([Publication("ann/o/a", n, {"n": 1.0}) for n in range(1, many + 1)])
    platform.settle()
    assert record(platform, "ann/p/recent")[-1] == ("", float(many), 1.0, float(many))
    assert platform.completed == 0
    hour = 3_600_000_000
    platform.publish("ann/o/a", hour + many - 100, n=2.0)
    platform.settle()
    assert record(platform, "ann/p/recent")[-1] == ("", 102.0, 1.0, 101.0)
    # That was more than a task is given of a window, and leaves nothing behind.
    assert platform.completed == 1
    assert platform.database.rows("SELECT count(*) FROM pairs")[0][0] < 150


def test_groups_have_windows_of_their_own(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="number", city="string")})
    recent = derived({"a": "o/a"}, CHANNELS, group="a.city", **window(count=2))
    platform.put("ann", "p", streams={"recent": recent})
    for at, (city, n) in enumerate([("oslo", 1), ("rome", 10), ("oslo", 2), ("oslo", 3)], 1):
        platform.publish("ann/o/a", at, n=float(n), city=city)
        platform.settle()
    assert record(platform, "ann/p/recent") == [
        ("oslo", 1.0, 1.0, 1.0),
        ("rome", 10.0, 10.0, 1.0),
        ("oslo", 3.0, 1.0, 2.0),
        ("oslo", 5.0, 2.0, 2.0),
    ]


def test_a_result_of_no_partition_is_of_all(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="number"), "clock": simple(n="number")})
    recent = derived({"a": "o/a", "clock": "o/clock"}, CHANNELS, **window(count=3))
    platform.put("ann", "p", streams={"recent": recent})
    for at, key in enumerate("xyxx", 1):
        platform.publish("ann/o/a", at, key, n=float(at))
    platform.publish("ann/o/clock", 9, n=0.0)
    platform.settle()
    assert record(platform, "ann/p/recent") == [("", 9.0, 2.0, 3.0)]


def test_a_window_begins_anew_when_it_is_another_and_only_then(platform: Platform) -> None:
    def put(source: dict[str, Any] | None = None, **more: Any) -> None:
        platform.put("ann", "o", streams={"a": source or {**simple(n="number"), **SHARED}})
        stream = derived({"a": "ann/o/a"}, CHANNELS, **{**window(count=3), **more})
        platform.put("ben", "p", streams={"recent": stream})

    at = iter(range(1, 100))

    def counts() -> list[float]:
        before = len(record(platform, "ben/p/recent"))
        for _ in range(2):
            platform.publish("ann/o/a", next(at), n=1.0)
        platform.settle()
        return [count for _, _, _, count in record(platform, "ben/p/recent")[before:]]

    put()
    assert counts() == [1, 2]
    put(description={"kind": "air"})
    assert counts() == [3, 3]
    put(**window(count=4))
    assert counts() == [1, 2]
    # Other channels, and back: what was added up before means something else.
    put(**window(count=4))
    platform.put("ann", "o", streams={"a": {**simple(n="string"), **SHARED}})
    put(**window(count=4))
    assert counts() == [1, 2]
    platform.catalog.delete("ann", "o")
    put(**window(count=4))
    assert counts() == [1, 2]
    platform.catalog.delete("ben", "p")
    platform.settle()
    assert platform.database.rows("SELECT count(*) FROM windows")[0][0] == 0
    assert platform.database.rows("SELECT count(*) FROM pairs")[0][0] == 0


def test_what_cannot_be_read_into_a_window_is_left_out_and_told_once(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="integer")})
    inverse = {
        "channels": {"n": {"type": "integer", "expression": "window.sum"}},
        "inputs": {"a": {"stream": "o/a"}},
        "aggregate": {
            "input": "a",
            "count": 10,
            "fields": {"sum": {"function": "sum", "of": "100 / a.n"}},
        },
    }
    platform.put("ann", "p", streams={"inverse": inverse})
    for at, n in enumerate([5, 0, 4], 1):
        platform.publish("ann/o/a", at, n=n)
    platform.settle()
    assert platform.values("ann/p/inverse", "n") == [20, 20, 45]
    rows = platform.database.rows("SELECT kind, message FROM failures")
    assert rows == [("expression", "aggregate.fields.sum: INVALID_ARGUMENT: divide by zero")]


def test_replaying_the_log_gives_the_same_windows(tmp_path: Path) -> None:
    live = Platform(tmp_path / "live.db", 3)
    live.put("ann", "o", streams={"a": simple(n="number")})
    recent = derived({"a": "o/a"}, CHANNELS, **window(size="20us"))
    live.put("ann", "p", streams={"recent": recent})
    for at in range(1, 80):
        live.publish("ann/o/a", at * 3, n=0.1 * at)
        if at == 40:
            more = derived({"a": "o/a"}, CHANNELS, **window(count=7))
            live.put("ann", "q", streams={"more": more})
        if at % 11 == 0:
            live.step()
    live.settle()
    replayed = replay(live, tmp_path / "replayed.db")
    assert replayed.contents() == live.contents()
    assert len(live.updates("ann/q/more")) > 30
