"""Tables of a database: rows and the position in one transaction.

With `keys` a later row replaces the one with the same keys. Without, each row has an id of its own,
its bucket and its rank in it, which are the same on every replica.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.runtime.extras import require

if TYPE_CHECKING:
    import sqlalchemy as sa


BUCKET, RANK = "holdfast_bucket", "holdfast_rank"
POSITIONS = "holdfast_positions"

Record = dict[str, Any]


class SqlStore:
    """One table, made if it is missing. The driver of the database must be installed."""

    def __init__(
        self,
        url: str,
        table: str,
        keys: Sequence[str],
        *,
        size: int,
        application: str,
        place: str,
    ) -> None:
        """`size`: of a bucket. `application`: under which name the position is kept. `place`: in
        the topology."""
        require("sqlalchemy", f"{place}: sql", "sql")
        import sqlalchemy as sa

        self._place = place
        self._name = table
        self._keys = tuple(keys)
        self._size = size
        self._application = application
        try:
            self._engine = sa.create_engine(url)
        except (sa.exc.ArgumentError, ImportError) as error:
            raise InvalidArgumentError(
                f"{place}.url: cannot be used ({error}); write it as SQLAlchemy knows it, and "
                "install the driver of the database"
            ) from None
        self._positions = sa.Table(
            POSITIONS,
            sa.MetaData(),
            sa.Column("sink", sa.String(255), primary_key=True),
            sa.Column("boundary", sa.BigInteger, nullable=False),
        )
        self._table: sa.Table | None = None
        with self._engine.begin() as connection:
            self._positions.create(connection, checkfirst=True)
            self._position = self._committed(connection)

    @property
    def position(self) -> int:
        return self._position

    def write(self, rows: pa.Table | None, end: int) -> None:
        with self._engine.begin() as connection:
            if self._committed(connection) < end:
                if rows is not None:
                    self._put(connection, rows)
                self._note(connection, end)
        self._position = end

    def close(self) -> None:
        self._engine.dispose()

    def _committed(self, connection: sa.Connection) -> int:
        import sqlalchemy as sa

        asked = sa.select(self._positions.c.boundary).where(
            self._positions.c.sink == self._application
        )
        return connection.execute(asked).scalar() or 0

    def _note(self, connection: sa.Connection, end: int) -> None:
        mine = self._positions.c.sink == self._application
        noted = connection.execute(self._positions.update().where(mine).values(boundary=end))
        if not noted.rowcount:
            added = self._positions.insert().values(sink=self._application, boundary=end)
            connection.execute(added)

    def _put(self, connection: sa.Connection, rows: pa.Table) -> None:
        if not self._keys:
            rows = _with_ids(rows, self._size)
        table = self._open_table(connection, rows.schema)
        records = _records(rows)
        if self._keys:
            # Of rows with the same keys the last one stays.
            records = list({_key(record, self._keys): record for record in records}.values())
            self._delete(connection, table, records)
        else:
            first, last = records[0][BUCKET], records[-1][BUCKET]
            connection.execute(table.delete().where(table.c[BUCKET].between(first, last)))
        connection.execute(table.insert(), records)

    def _delete(
        self, connection: sa.Connection, table: sa.Table, records: Sequence[Record]
    ) -> None:
        import sqlalchemy as sa

        # A database finds equal keys by an index; null is equal to nothing.
        whole = [each for each in records if None not in _key(each, self._keys)]
        for some, is_same in (
            (whole, "__eq__"),
            ([each for each in records if None in _key(each, self._keys)], "is_not_distinct_from"),
        ):
            if not some:
                continue
            conditions = [
                getattr(table.c[key], is_same)(sa.bindparam(f"k{at}", type_=table.c[key].type))
                for at, key in enumerate(self._keys)
            ]
            connection.execute(
                table.delete().where(*conditions),
                [{f"k{at}": each[key] for at, key in enumerate(self._keys)} for each in some],
            )

    def _open_table(self, connection: sa.Connection, schema: pa.Schema) -> sa.Table:
        import sqlalchemy as sa

        if self._table is None:
            ids = self._keys or (BUCKET, RANK)
            missing = [name for name in ids if name not in schema.names]
            if missing:
                raise InvalidArgumentError(
                    f"{self._place}.keys: the stream has no column {', '.join(missing)}; it has "
                    f"{', '.join(schema.names)}"
                )
            table = sa.Table(
                self._name,
                sa.MetaData(),
                *(sa.Column(field.name, _type(field.type, field.name in ids)) for field in schema),
                sa.UniqueConstraint(*ids),
            )
            table.create(connection, checkfirst=True)
            self._table = table
        return self._table


def _type(kind: pa.DataType, is_key: bool) -> Any:
    """Columns of columns are written as JSON, in a text."""
    import sqlalchemy as sa

    if pa.types.is_boolean(kind):
        return sa.Boolean()
    if pa.types.is_integer(kind):
        return sa.BigInteger()
    if pa.types.is_floating(kind):
        return sa.Double()
    if pa.types.is_decimal(kind):
        return sa.Numeric(kind.precision, kind.scale)
    if pa.types.is_date(kind):
        return sa.Date()
    if pa.types.is_timestamp(kind):
        return sa.DateTime(timezone=kind.tz is not None)
    if pa.types.is_binary(kind):
        return sa.LargeBinary()
    # Some databases have no index over texts of any length.
    return sa.String(255) if is_key else sa.Text()


def _with_ids(rows: pa.Table, size: int) -> pa.Table:
    """The rows with their buckets, and their ranks in them. Buckets are whole and in order."""
    buckets = rows[STIME].cast(pa.int64()).to_numpy() // size
    ranks = np.arange(len(buckets)) - np.searchsorted(buckets, buckets)
    rows = rows.add_column(0, BUCKET, pa.array(buckets))
    return rows.add_column(1, RANK, pa.array(ranks))


def _records(rows: pa.Table) -> list[Record]:
    nested = [field.name for field in rows.schema if pa.types.is_nested(field.type)]
    records = rows.to_pylist()
    for record in records:
        for name in nested:
            if record[name] is not None:
                record[name] = json.dumps(record[name], default=_plain)
    return records


def _plain(value: Any) -> Any:
    """What JSON has no form for: times and dates, decimals, bytes."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _key(record: Mapping[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    return tuple(record[key] for key in keys)
