"""One interface for SQLite and PostgreSQL.

A connection for each thread. Whatever is in a transaction is there whole or not at all, and is safe
when it returns.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.errors import InvalidArgumentError, StoreUnavailableError

FOREVER: Final = 2**62
"""The end of what has none yet."""
AT_ONCE: Final = 500
"""Values in one list of a statement."""
PATIENCE: Final = 60.0
"""Seconds to wait for another's transaction."""

Row = tuple[Any, ...]


class Work(Protocol):
    """A transaction."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Answers how many rows it changed."""

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert many new rows, by the fastest way that there is."""

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]: ...


class Database(Protocol):
    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]: ...

    @contextmanager
    def transaction(self) -> Iterator[Work]: ...

    def close(self) -> None: ...


def rows_among(
    database: Database | Work, statement: str, among: Iterable[Any], values: Sequence[Any] = ()
) -> list[Row]:
    """For a statement with `IN (@)`, before which `values` go: any number of them."""
    wanted = list(among)
    found: list[Row] = []
    for at in range(0, len(wanted), AT_ONCE):
        some = wanted[at : at + AT_ONCE]
        marks = ",".join("?" * len(some))
        found += database.rows(statement.replace("@", marks), [*values, *some])
    return found


def open_database(place: str) -> Database:
    """A file, or `postgresql://...`."""
    if place.startswith(("postgresql://", "postgres://")):
        return PostgresDatabase(place)
    return SqliteDatabase(Path(place))


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection().execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Work]:
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield _SqliteWork(connection)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(
                self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            found.execute("PRAGMA journal_mode = WAL")
            # A commit that was answered survives a power failure.
            found.execute("PRAGMA synchronous = FULL")
            self._local.connection = found
            with self._lock:
                self._all.append(found)
        return found


class _SqliteWork:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, values).rowcount

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        self.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise InvalidArgumentError(
                "database: PostgreSQL needs a package more; pip install 'holdfast[postgres]'"
            ) from None
        self._connect = psycopg.connect
        self._failure = psycopg.OperationalError
        self._url = url
        self._local = threading.local()
        self._all: list[Any] = []
        self._lock = threading.Lock()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return _PostgresWork(self._connection()).rows(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Work]:
        connection = self._connection()
        with connection.transaction():
            yield _PostgresWork(connection)

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _connection(self) -> Any:
        found = getattr(self._local, "connection", None)
        if found is None or found.closed:
            try:
                found = self._connect(self._url, autocommit=True)
            except self._failure as error:
                # The message of the driver may hold the password.
                raise StoreUnavailableError(
                    "database: PostgreSQL cannot be reached "
                    f"({type(error).__name__}); check the address and whether it runs"
                ) from None
            self._local.connection = found
            with self._lock:
                self._all.append(found)
        return found


class _PostgresWork:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(_dialect(statement), values)
            return int(cursor.rowcount)

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_dialect(statement), list(rows))

    def load(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        with self._connection.cursor() as cursor:
            cursor.execute(_dialect(statement), values)
            return list(cursor.fetchall())


def _dialect(statement: str) -> str:
    return statement.replace("?", "%s")
