"""Store and emit: results of a batch and the position in the log, in one transaction.

A batch that is run again finds that it has been, and changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.errors import HoldfastError, StoreCorruptError
from holdfast.tenants.machine.definitions import owner_of
from holdfast.tenants.process.catalog import Change
from holdfast.tenants.process.engine.operating import COLUMNS, Outcome, operate
from holdfast.tenants.process.engine.planning import Bundle, Plan, Planner, read_plan
from holdfast.tenants.process.log import Entry, following_numbers, read_changes
from holdfast.tenants.process.store.database import Database, Work
from holdfast.tenants.process.store.pages import insert_pages
from holdfast.tenants.process.store.windows import drop_windows, fetch_from, save_windows

STAGES: Final = ("dispatch", "fetch", "operate", "store")


class StoredBatch(NamedTuple):
    end: int
    """How far the log has been settled."""
    cursors: dict[str, int]
    """For each tenant in it, how far its entries have been."""
    seconds: dict[str, float]
    """Of each stage."""
    counts: dict[str, int]
    work: dict[str, int]
    """For each stream that was published to, the steps that one update set off in its owner's."""


class Stages:
    """Counters; several threads may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._counts = {"batches": 0, "updates": 0, "results": 0, "failures": 0, "discarded": 0}

    def add(self, seconds: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Those of one batch."""
        with self._lock:
            for stage, more in seconds.items():
                self._seconds[stage] += more
            self._counts["batches"] += 1
            for name, number in counts.items():
                self._counts[name] += number

    def told(self) -> dict[str, object]:
        with self._lock:
            seconds = {stage: round(spent, 6) for stage, spent in self._seconds.items()}
            return {**self._counts, "seconds": seconds}


MOST_WAITING: Final = 10_000
"""Calls of one tenant that are yet to be made."""
_TOO_MANY: Final = f"not done: {MOST_WAITING} of your calls are waiting already"

_ENCODE = msgspec.json.Encoder(order="deterministic").encode


class IncompleteBatchError(HoldfastError):
    """Spark handed over less than the whole batch."""


def progress(database: Database | Work) -> int:
    """Up to where all of the log has been settled; of some tenants, more has."""
    return int(database.rows("SELECT position FROM progress WHERE name = 'engine'")[0][0])


def last_batch(database: Database | Work) -> int:
    """The number of the last batch that was stored."""
    return int(database.rows("SELECT position FROM progress WHERE name = 'batch'")[0][0])


def store(database: Database, batch: int, outcomes: Sequence[Outcome]) -> Plan | None:
    """All of a recorded batch, or nothing. None: this was stored before."""
    with database.transaction() as work:
        done = last_batch(work)
        if done >= batch:
            return None
        plan = read_plan(work, batch)
        if done != batch - 1 or plan is None:
            raise StoreCorruptError(
                f"progress: batch {batch} came after {done}; another server uses this store"
            )
        changes = read_changes(work, plan.runs)
        _check_whole(batch, plan, changes, outcomes)
        for entry in changes:
            _apply(work, msgspec.json.decode(entry.body, type=Change), entry.position)
        for outcome in outcomes:
            _insert(work, outcome)
        work.many(
            "INSERT INTO cursors (tenant, position) VALUES (?, ?) "
            "ON CONFLICT (tenant) DO UPDATE SET position = excluded.position",
            plan.cursors.items(),
        )
        for name, position in (("engine", plan.settled), ("batch", batch)):
            work.run("UPDATE progress SET position = ? WHERE name = ?", (position, name))
        work.run("DELETE FROM plans WHERE batch < ?", (batch,))
    return plan


def _check_whole(
    batch: int, plan: Plan, changes: Sequence[Entry], outcomes: Sequence[Outcome]
) -> None:
    """A batch with an update missing, or one too many, must not be stored."""
    changed = {entry.position for entry in changes}
    planned = [position for position in plan.positions if position not in changed]
    made = sorted(position for each in outcomes for position in each.positions)
    if planned != made:
        raise IncompleteBatchError(
            f"batch {batch}: has {len(made)} of {len(planned)} updates; it is run again"
        )


def complete(database: Database, bundle: Bundle) -> Outcome:
    """Operate with the store at hand: for a bundle that a task had too little for."""
    return operate(bundle, fetch=lambda window: fetch_from(database, window))


def run_batch(
    database: Database, planner: Planner, run: Callable[[Bundle], Outcome] | None = None
) -> Plan | None:
    """One batch in this process, without Spark. None: nothing waits."""
    batch = last_batch(database) + 1
    if not planner.record(batch):
        return None
    bundles = planner.plan(batch)
    outcomes = [complete(database, each) if run is None else run(each) for each in bundles]
    return store(database, batch, outcomes)


def _apply(work: Work, change: Change, position: int) -> None:
    drop_windows(work, {*change.removed, *change.restarted})
    work.many(
        "INSERT INTO numbers (path, following) VALUES (?, ?) "
        "ON CONFLICT (path) DO UPDATE SET following = excluded.following",
        following_numbers(work, change.removed, position).items(),
    )
    for path in change.removed:
        for table in ("updates", "pages", "latest", "failures", "lags", "dropped"):
            work.run(f"DELETE FROM {table} WHERE path = ?", (path,))
    for path in change.cleared:
        for table in ("latest", "lags"):
            work.run(f"DELETE FROM {table} WHERE path = ?", (path,))


def _insert(work: Work, outcome: Outcome) -> None:
    work.load("updates", COLUMNS, outcome.rows)
    insert_pages(work, outcome.pages)
    work.many(
        "INSERT INTO latest (path, partition_key, body) VALUES (?, ?, ?) "
        "ON CONFLICT (path, partition_key) DO UPDATE SET body = excluded.body",
        outcome.latest,
    )
    work.many(
        "INSERT INTO numbers (path, following) VALUES (?, ?) "
        "ON CONFLICT (path) DO UPDATE SET following = excluded.following",
        outcome.numbers.items(),
    )
    work.many(
        "INSERT INTO failures (path, position, number, timestamp, kind, message) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [
            (f.stream, f.position, f.number, f.timestamp, f.kind, f.message)
            for f in outcome.failures
        ],
    )
    for path, source, lag in outcome.lags:
        work.run("DELETE FROM lags WHERE path = ? AND source = ?", (path, source))
        if lag is not None:
            work.run(
                "INSERT INTO lags (path, source, body) VALUES (?, ?, ?)",
                (path, source, _ENCODE(lag).decode()),
            )
    save_windows(work, outcome.windows)
    insert_calls(work, outcome.calls)


def insert_calls(work: Work, calls: Iterable[tuple[str, str, str]]) -> None:
    """Action, what set it off, what it is told. Each is to be made once."""
    made = list(calls)
    if not made:
        return
    # PostgreSQL lets others write beside this: one after the other, or two would take the same id.
    work.run("UPDATE progress SET position = position WHERE name = 'batch'")
    following = int(work.rows("SELECT coalesce(max(id), 0) FROM calls")[0][0]) + 1
    waiting = {owner_of(action): 0 for action, _, _ in made}
    for tenant in waiting:
        waiting[tenant] = int(
            work.rows("SELECT count(*) FROM calls WHERE state = 'due' AND tenant = ?", (tenant,))[
                0
            ][0]
        )
    rows = []
    for number, (action, origin, body) in enumerate(made, following):
        tenant = owner_of(action)
        waiting[tenant] += 1
        state, said = ("due", "") if waiting[tenant] <= MOST_WAITING else ("failed", _TOO_MANY)
        due = int(time.time() * 1e6)
        rows.append((number, tenant, action, origin, body, state, 0, due, said))
    work.many(
        "INSERT INTO calls (id, tenant, action, origin, body, state, tries, due, said) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        rows,
    )
