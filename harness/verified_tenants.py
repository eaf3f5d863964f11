"""The store of a server of tenants, compared with an oracle after the server has ended.

Chains `p.x + 1.0` are compared in closed form, other tenants by settling their log once more, alone
and in its order, without Spark. Both hold for tenants that use no streams of others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from harness.hostile import CHAIN
from holdfast.tenants.process.engine.fairness import Budget
from holdfast.tenants.process.engine.operating import row_of
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.engine.storing import run_batch
from holdfast.tenants.process.store.database import Database, open_database
from holdfast.tenants.process.store.pages import updates_in_pages
from holdfast.tenants.process.store.schema import create_tables

__all__ = ["check_store"]

TABLES = ("log", "objects", "streams", "edges", "lineage")
COMPARED = {
    "latest": "partition_key",
    "failures": "position, number",
    "numbers": "path",
}


def check_store(path: Path, tenants: Iterable[str]) -> int:
    """Compare all that is settled; answers how many results are right."""
    database = open_database(str(path))
    try:
        return sum(
            _check_chain(database) if tenant == "eve" else _check_alone(database, tenant)
            for tenant in tenants
        )
    finally:
        database.close()


def _rows(database: Database, path: str) -> list[tuple[Any, ...]]:
    """All updates of a stream as rows of the table, those in pages too, by their offsets."""
    rows = database.rows("SELECT * FROM updates WHERE path = ?", (path,))
    paged = updates_in_pages(database, path, -1, -(2**62), 2**62)
    return sorted([*rows, *(row_of(update, 0) for update in paged)], key=lambda row: int(row[1]))


def _check_chain(database: Database) -> int:
    """Each update that was settled has one result in each stream of the chain."""
    settled = database.rows("SELECT position FROM cursors WHERE tenant = 'eve'")
    end = int(settled[0][0]) if settled else 0
    dropped = database.rows("SELECT max(before) FROM dropped WHERE path LIKE 'eve/%'")[0][0] or 0
    published = {
        int(position): msgspec.json.decode(body)["x"]
        for position, body in database.rows(
            "SELECT position, body FROM log "
            "WHERE path = 'eve/chain/s' AND position <= ? AND number >= ?",
            (end, dropped),
        )
    }
    stored = {int(row[2]): int(row[5]) for row in _rows(database, "eve/chain/s")}
    assert published.keys() <= stored.keys(), "an update was not stored"
    wanted = {position: x for position, x in published.items() if not stored[position]}
    right = 0
    for n in range(CHAIN):
        rows = _rows(database, f"eve/chain/c{n}")
        kept = {int(row[2]): msgspec.json.decode(row[6])["values"]["x"] for row in rows}
        assert len(kept) == len(rows), f"c{n} has two results of one update"
        numbers = [int(row[1]) for row in rows]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        assert dropped or kept.keys() == wanted.keys(), f"c{n}: {len(kept)} of {len(wanted)}"
        for position, x in wanted.items():
            assert kept.get(position) == x + n + 1, (n, position, x, kept.get(position))
        right += len(kept)
    return right


def _check_alone(database: Database, tenant: str) -> int:
    settled = database.rows("SELECT position FROM cursors WHERE tenant = ?", (tenant,))
    end = int(settled[0][0]) if settled else 0
    with tempfile.TemporaryDirectory() as folder:
        oracle = open_database(str(Path(folder) / "store.db"))
        create_tables(oracle)
        for table in TABLES:
            path = "target" if table in ("edges", "lineage") else "path"
            path = "tenant || '/'" if table == "objects" else path
            column = "position" if table == "log" else "since"
            rows = database.rows(
                f"SELECT * FROM {table} WHERE {path} LIKE ? AND {column} <= ?", (f"{tenant}/%", end)
            )
            with oracle.transaction() as work:
                if rows:
                    marks = ",".join("?" * len(rows[0]))
                    work.many(f"INSERT INTO {table} VALUES ({marks})", rows)
        planner = Planner(oracle, Budget(1e12, 2**40, 1))
        while run_batch(oracle, planner) is not None:
            pass
        for table, order in COMPARED.items():
            asked = f"SELECT * FROM {table} WHERE path LIKE '{tenant}/%' ORDER BY path, {order}"
            got, expected = database.rows(asked), oracle.rows(asked)
            for one, other in zip(got, expected, strict=False):
                assert one == other, f"{table}: stored {one}, expected {other}"
            assert len(got) == len(expected), f"{table}: {len(got)} of {len(expected)} rows"
        count = 0
        paths = {
            path
            for each in (database, oracle)
            for table in ("updates", "pages")
            for (path,) in each.rows(f"SELECT DISTINCT path FROM {table}")
        }
        for path in sorted(path for path in paths if path.startswith(f"{tenant}/")):
            stored, wanted = _rows(database, path), _rows(oracle, path)
            assert stored == wanted, f"{path}: {_first_difference(stored, wanted)}"
            count += len(wanted)
        oracle.close()
    return count


def _first_difference(stored: list[Any], wanted: list[Any]) -> str:
    for one, other in zip(stored, wanted, strict=False):
        if one != other:
            return f"stored {one}, expected {other}"
    return f"{len(stored)} of {len(wanted)} updates"
