"""A batch that ends the engine again and again gets smaller until it does not."""

from __future__ import annotations

from pathlib import Path

from holdfast.tenants.process.engine.caution import MOST_CAUTION, REASSURING, Caution
from holdfast.tenants.process.engine.planning import Planner, read_plan
from holdfast.tenants.process.engine.storing import last_batch, run_batch
from tests.tenants.process.rig import Platform, derived, simple

UPDATES = 40


def filled(place: Path) -> Platform:
    platform = Platform(place)
    total = derived({"a": "a", "me": "total"}, {"n": "a.n + (me._present ? me.n : 0.0)"})
    platform.put("ann", "o", streams={"a": simple(n="number"), "total": total})
    platform.settle()
    for n in range(UPDATES):
        platform.publish("ann/o/a", n + 1, n=float(n))
    return platform


def test_a_batch_that_fails_again_is_made_smaller(tmp_path: Path) -> None:
    """An engine that dies of more than three updates at once settles all of them."""
    live, alone = filled(tmp_path / "live.db"), filled(tmp_path / "alone.db")
    alone.settle()
    caution = Caution(live.database)
    starts = 0
    while live.values("ann/o/total", "n") != alone.values("ann/o/total", "n"):
        planner = Planner(live.database, caution=caution.before_start())
        starts += 1
        assert starts < 20
        while planner.record(last_batch(live.database) + 1):
            plan = read_plan(live.database, last_batch(live.database) + 1)
            assert plan is not None
            if len(plan.positions) > 3:
                break
            assert run_batch(live.database, planner) is not None
    assert live.contents() == alone.contents()
    assert 0 < caution.level <= MOST_CAUTION


def test_a_first_failure_changes_nothing(tmp_path: Path) -> None:
    """Whatever has killed the engine, the same batch is tried once more."""
    platform = filled(tmp_path / "store.db")
    caution = Caution(platform.database)
    assert caution.before_start() == 0
    assert platform.planner.record(last_batch(platform.database) + 1)
    plan = read_plan(platform.database, last_batch(platform.database) + 1)
    assert caution.before_start() == 0
    assert read_plan(platform.database, last_batch(platform.database) + 1) == plan
    platform.settle()
    # Engines that could not be started, and had nothing to do.
    assert [caution.before_start() for _ in range(5)] == [0] * 5


def test_caution_ends_after_many_batches(tmp_path: Path) -> None:
    platform = filled(tmp_path / "store.db")
    caution = Caution(platform.database)
    assert platform.planner.record(last_batch(platform.database) + 1)
    assert [caution.before_start() for _ in range(2)] == [0, 1]
    platform.settle()
    assert caution.before_start() == 1
    with platform.database.transaction() as work:
        work.run("UPDATE progress SET position = position + ? WHERE name = 'batch'", (REASSURING,))
    assert caution.before_start() == 0
