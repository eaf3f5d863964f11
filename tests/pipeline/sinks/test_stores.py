"""Stores hold each row once, together with their position."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.pipeline.sinks.delta import DeltaStore
from holdfast.pipeline.sinks.outlets import Store
from holdfast.pipeline.sinks.parquet import ParquetStore
from holdfast.pipeline.sinks.sql import SqlStore
from tests.flushing import Flushes
from tests.pipeline.sinks.contents import values_in

SIZE = 10


def open_store(kind: str, folder: Path, *, name: str = "sink") -> Store:
    match kind:
        case "parquet":
            return ParquetStore(folder / "out")
        case "delta":
            return DeltaStore(folder / "out", name, "sinks.sink")
    keys = ["n"] if kind == "sql with keys" else []
    return sql_store(folder, keys=keys, name=name)


def sql_store(folder: Path, *, keys: list[str], name: str = "sink", url: str = "") -> SqlStore:
    return SqlStore(
        url or f"sqlite:///{folder / 'out.db'}",
        "rows",
        keys,
        size=SIZE,
        application=name,
        place="sinks.sink",
    )


def at(times: list[int], **columns: Any) -> pa.Table:
    stime = pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"stime": stime, **columns})


def batch(start: int, end: int) -> pa.Table:
    """Two rows for each microsecond."""
    numbers = list(range(2 * start, 2 * end))
    return at([n // 2 for n in numbers], n=pa.array(numbers, pa.int64()))


KINDS = ["parquet", "delta", "sql", "sql with keys"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_position_are_there_when_the_store_is_opened_again(
    tmp_path: Path, kind: str
) -> None:
    for start in range(0, 50, 10):
        store = open_store(kind, tmp_path)
        assert store.position == start
        store.write(batch(start, start + 10), start + 10)
        assert store.position == start + 10
        store.close()
    assert values_in(kind, tmp_path) == list(range(100))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_are_safe_before_they_are_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """From a power failure: whoever publishes them forgets them then."""
    flushes = Flushes(monkeypatch)
    for start in range(0, 50, 10):
        store = open_store(kind, tmp_path)
        store.write(batch(start, start + 10), start + 10)
        assert flushes.are_safe(tmp_path, "*.parquet")
        assert kind == "parquet" or flushes.are_safe(tmp_path, "*.json")
        store.close()


def test_what_an_earlier_life_has_not_flushed_is_safe_before_its_position_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(DeltaStore, "_flush", lambda store: None)
        open_store("delta", tmp_path).write(batch(0, 10), 10)
    flushes = Flushes(monkeypatch)
    store = open_store("delta", tmp_path)
    assert store.position == 10
    assert flushes.are_safe(tmp_path, "*.parquet")
    assert flushes.are_safe(tmp_path, "*.json")
    store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_silence_is_noted(tmp_path: Path, kind: str) -> None:
    store = open_store(kind, tmp_path)
    store.write(batch(0, 10), 10)
    store.write(None, 500)
    store.close()
    store = open_store(kind, tmp_path)
    assert store.position == 500
    store.write(batch(500, 510), 510)
    store.close()
    assert open_store(kind, tmp_path).position == 510
    assert len(values_in(kind, tmp_path)) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_silence_at_the_very_beginning_does_no_harm(tmp_path: Path, kind: str) -> None:
    store = open_store(kind, tmp_path)
    store.write(None, 100)
    store.write(batch(100, 110), 110)
    store.close()
    assert open_store(kind, tmp_path).position == 110
    assert len(values_in(kind, tmp_path)) == 20


@pytest.mark.parametrize("kind", ["delta", "sql", "sql with keys"])
def test_a_batch_that_is_there_is_not_put_there_again(tmp_path: Path, kind: str) -> None:
    """Whoever has the table open beside us has written it."""
    ours, theirs = open_store(kind, tmp_path), open_store(kind, tmp_path)
    theirs.write(batch(0, 10), 10)
    ours.write(batch(0, 10), 10)
    assert ours.position == 10
    ours.close()
    theirs.close()
    assert values_in(kind, tmp_path) == list(range(20))


@pytest.mark.parametrize("kind", ["delta", "sql"])
def test_sinks_have_each_their_own_position(tmp_path: Path, kind: str) -> None:
    one = open_store(kind, tmp_path, name="one")
    one.write(batch(0, 10), 10)
    other = open_store(kind, tmp_path, name="other")
    assert other.position == 0
    other.write(batch(10, 20), 20)
    one.close()
    other.close()
    assert values_in(kind, tmp_path) == list(range(40))


# Parquet


def test_parquet_files_are_named_by_their_stretch(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    noon = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
    store.write(at([noon, noon + 5], n=[1, 2]), noon + 1_000_000)
    [path] = tmp_path.iterdir()
    assert path.name == "2026-03-01T12-00-00.000000Z_2026-03-01T12-00-01.000000Z.parquet"
    assert ParquetStore(tmp_path).position == noon + 1_000_000


def test_unfinished_parquet_files_are_swept_away_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".half_a.parquet.tmp").write_bytes(b"PAR1")
    (tmp_path / "not_ours.parquet").write_bytes(b"")
    assert ParquetStore(tmp_path).position == 0
    assert [path.name for path in tmp_path.iterdir()] == ["not_ours.parquet"]


def test_a_broken_note_is_named(tmp_path: Path) -> None:
    (tmp_path / "_position").write_text("soon")
    with pytest.raises(StoreCorruptError, match="_position: has no position; delete it"):
        ParquetStore(tmp_path)


# Delta


def test_a_delta_table_has_one_commit_for_each_batch(tmp_path: Path) -> None:
    store = DeltaStore(tmp_path / "out", "me", "sinks.sink")
    nested = pa.array(
        [{"start": 1, "end": 2}], pa.struct([("start", pa.int64()), ("end", pa.int64())])
    )
    for number in range(3):
        store.write(at([number], n=[number], window=nested), number + 1)
    table = DeltaTable(tmp_path / "out")
    assert table.version() == 2
    assert table.transaction_version("me") == 3
    assert table.to_pyarrow_table()["window"].to_pylist() == [{"start": 1, "end": 2}] * 3


# SQL


def in_database(folder: Path, question: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return database.execute(question).fetchall()


def test_rows_without_keys_have_ids_by_bucket_and_rank(tmp_path: Path) -> None:
    store = sql_store(tmp_path, keys=[])
    store.write(at([1, 5, 12, 12, 31], n=[1, 2, 3, 4, 5]), 40)
    store.close()
    assert in_database(tmp_path, "SELECT holdfast_bucket, holdfast_rank, n FROM rows") == [
        (0, 0, 1),
        (0, 1, 2),
        (1, 0, 3),
        (1, 1, 4),
        (3, 0, 5),
    ]


@settings(max_examples=25)
@given(
    st.lists(
        st.lists(
            st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from("xy")), max_size=6
        ),
        max_size=5,
    )
)
def test_a_later_row_replaces_one_with_the_same_keys(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[Any, Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("upsert")
    store = sql_store(folder, keys=["a", "b"])
    expected: dict[tuple[Any, Any], int] = {}
    count = 0
    for number, keys in enumerate(batches, 1):
        values = list(range(count, count + len(keys)))
        count += len(keys)
        expected |= dict(zip(keys, values, strict=True))
        rows = at(
            [number] * len(keys),
            a=pa.array([a for a, _ in keys], pa.int64()),
            b=pa.array([b for _, b in keys], pa.string()),
            n=pa.array(values, pa.int64()),
        )
        store.write(rows if keys else None, number * SIZE)
    store.close()
    found = in_database(folder, "SELECT a, b, n FROM rows") if expected else []
    assert {(a, b): n for a, b, n in found} == expected
    assert len(found) == len(expected)


def test_all_types_get_into_a_database(tmp_path: Path) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    values: dict[str, tuple[pa.DataType, Any, Any]] = {
        "boolean": (pa.bool_(), True, 1),
        "tinyint": (pa.int8(), -1, -1),
        "bigint": (pa.int64(), 2**62, 2**62),
        "double": (pa.float64(), 1.5, 1.5),
        "string": (pa.string(), "'; DROP TABLE rows", "'; DROP TABLE rows"),
        "binary": (pa.binary(), b"\x00\xff", b"\x00\xff"),
        "date": (pa.date32(), date(2026, 3, 1), "2026-03-01"),
        "timestamp": (pa.timestamp("us", "UTC"), noon, "2026-03-01 12:00:00.000000"),
        "decimal": (pa.decimal128(10, 2), Decimal("1.25"), 1.25),
        "array": (pa.list_(pa.int64()), [1, None], "[1, null]"),
        "odd \"name'": (
            pa.struct([("at", TIME)]),
            {"at": noon},
            '{"at": "2026-03-01T12:00:00+00:00"}',
        ),
    }
    store = sql_store(tmp_path, keys=["string"])
    columns = {name: pa.array([given, None], kind) for name, (kind, given, _) in values.items()}
    store.write(at([1, 2], **columns), 10)
    store.close()
    [row, nulls] = in_database(tmp_path, "SELECT * FROM rows ORDER BY stime")
    assert list(row[1:]) == [wanted for *_, wanted in values.values()]
    assert set(nulls[1:]) == {None}


TIME = pa.timestamp("us", "UTC")


def test_keys_that_the_stream_has_not_are_named(tmp_path: Path) -> None:
    store = sql_store(tmp_path, keys=["vehicle"])
    with pytest.raises(InvalidArgumentError, match=r"sinks.sink.keys: .* no column vehicle"):
        store.write(batch(0, 1), 10)
    store.close()


@pytest.mark.parametrize("url", ["nosuch://host/db", "postgresql+nosuch://me:secret@host/db"])
def test_a_database_that_cannot_be_used_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"sinks.sink.url: cannot be used") as caught:
        sql_store(tmp_path, keys=[], url=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("kind", "extra"), [("delta", "delta"), ("sql", "sql")])
def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, extra: str
) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("holdfast.runtime.extras.import_module", fail)
    with pytest.raises(
        InvalidArgumentError, match=rf"sinks.sink: .*pip install 'holdfast\[{extra}\]'"
    ):
        open_store(kind, tmp_path)


def test_what_was_written_can_be_read_as_one_parquet_table(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    for start in range(0, 30, 10):
        store.write(batch(start, start + 10), start + 10)
    store.write(None, 100)
    table = pyarrow.parquet.read_table(tmp_path).sort_by("n")
    assert table.equals(batch(0, 30))
