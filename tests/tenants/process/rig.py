"""A platform in a folder without Spark: the same stages, called one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from holdfast.tenants.machine.documents import ServiceObject
from holdfast.tenants.machine.windows import NotBroughtError
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.catalog import Catalog
from holdfast.tenants.process.engine.fairness import Budget
from holdfast.tenants.process.engine.operating import (
    Outcome,
    operate,
    read_outcome,
    row_of,
    write_outcome,
)
from holdfast.tenants.process.engine.planning import Bundle, Plan, Planner
from holdfast.tenants.process.engine.storing import complete, run_batch
from holdfast.tenants.process.log import Log, Publication, Receipt
from holdfast.tenants.process.store.database import Database, open_database
from holdfast.tenants.process.store.pages import updates_in_pages
from holdfast.tenants.process.store.schema import create_tables


class Platform:
    def __init__(self, place: Path | str, batch: int = 10_000) -> None:
        self.place = place
        self.database = open_database(str(place))
        create_tables(self.database)
        self.log = Log(self.database)
        self.catalog = Catalog(self.database, self.log)
        self.planner = Planner(self.database, Budget(1e9, 2**30, batch))
        self.quotas = Quotas()
        self.plans: list[Plan] = []
        """Of all batches that ran here."""
        self.completed = 0
        """Bundles that a task had too little for."""

    def put(self, tenant: str, name: str, **document: Any) -> int:
        made = msgspec.convert(document, ServiceObject)
        return self.catalog.put(tenant, name, made, self.quotas)

    def publish(self, path: str, timestamp: int, key: str = "", /, **values: Any) -> Receipt:
        return self.log.append([Publication(path, timestamp, values, key)])[0]

    def step(self) -> bool:
        """One batch."""
        return self._batch() is not None

    def _batch(self) -> Plan | None:
        plan = run_batch(self.database, self.planner, self._operated)
        if plan is not None:
            self.plans.append(plan)
        return plan

    def _operated(self, bundle: Bundle) -> Outcome:
        """As the query does it: where a task has too little, with the store at hand."""
        try:
            return read_outcome(write_outcome(operate(bundle)))
        except NotBroughtError:
            self.completed += 1
            return complete(self.database, bundle)

    def settle(self) -> list[int]:
        """All that waits; answers the positions in the order in which they were settled."""
        done: list[int] = []
        while (plan := self._batch()) is not None:
            done += plan.positions
        return done

    def updates(self, path: str) -> list[dict[str, Any]]:
        rows = [row for row in stored_updates(self.database) if row[0] == path and not row[5]]
        return [msgspec.json.decode(row[6]) for row in rows]

    def values(self, path: str, channel: str) -> list[Any]:
        return [update["values"][channel] for update in self.updates(path)]

    def contents(self) -> list[Any]:
        """All that was made of the log."""
        tables = {
            "latest": "path, partition_key",
            "failures": "path, position, number",
            "lags": "path, source",
            "numbers": "path",
        }
        return [
            stored_updates(self.database),
            *(
                self.database.rows(f"SELECT * FROM {table} ORDER BY {order}")
                for table, order in tables.items()
            ),
        ]


def stored_updates(database: Database) -> list[tuple[Any, ...]]:
    """As rows of the table, those in pages too, by path and number."""
    rows = database.rows("SELECT * FROM updates")
    for (path,) in database.rows("SELECT DISTINCT path FROM pages"):
        paged = updates_in_pages(database, path, -1, -(2**62), 2**62)
        rows += [row_of(update, 0) for update in paged]
    return sorted(rows, key=lambda row: row[:2])


def simple(**types: str) -> dict[str, Any]:
    return {"channels": {name: {"type": kind} for name, kind in types.items()}}


def derived(inputs: dict[str, str], channels: dict[str, str], **more: Any) -> dict[str, Any]:
    """Channels are numbers."""
    return {
        "channels": {n: {"type": "number", "expression": e} for n, e in channels.items()},
        "inputs": {alias: {"stream": path} for alias, path in inputs.items()},
        **more,
    }


SHARED = {"access": {"allow": ["*"]}}


def replay(live: Platform, place: Path) -> Platform:
    """Another platform with the log of this one, settled in the same recorded order."""
    replayed = Platform(place, 1)
    for table in ("log", "objects", "streams", "edges", "lineage"):
        rows = live.database.rows(f"SELECT * FROM {table}")
        with replayed.database.transaction() as work:
            work.many(f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})", rows)
    with replayed.database.transaction() as work:
        for number, plan in enumerate(live.plans, 1):
            work.run(
                "INSERT INTO plans VALUES (?, ?)", (number, msgspec.json.encode(plan).decode())
            )
    replayed.settle()
    return replayed
