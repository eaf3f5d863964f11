"""Writes of a program, carried out once after agreement.

Files are written beside their place and renamed, and one that was written by a coordinator that was
killed is known again. A Delta table keeps in its log what has been committed. Of anything else the
journal says that it was begun, and it is not begun twice.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.runtime.extras import require
from holdfast.verify.process.boundaries import APPEND, DELTA, IGNORE, OVERWRITE, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter


_NAMED_BY_SPARK: Final = re.compile(r"(part-\d+)-[0-9a-f-]{36}")


def write(df: DataFrame, target: Target) -> None:
    """As the program does it that is run by itself."""
    if target.format == DELTA and target.folder is not None:
        rows = df.toArrow()
        _write_delta(rows.schema, rows.to_batches(), target, target.folder, None)
    else:
        _finish(_writer(df, target).mode(target.mode), target)


def is_once(target: Target) -> bool:
    """Whether it may be written again by one who does not know whether it was written."""
    return target.folder is not None


def write_once(frame: Callable[[], DataFrame], staged: Path, target: Target, name: str) -> None:
    """What is there already under this name is not written again, if `is_once`.

    `staged`: the Parquet files of the DataFrame."""
    folder = target.folder
    if folder is None:
        _finish(_writer(frame(), target).mode(target.mode), target)
    elif target.format == DELTA:
        found = ds.dataset(staged, format="parquet")
        _write_delta(found.schema, found.to_batches(), target, folder, name)
    else:
        _write_files(frame, target, folder.absolute(), name)


def write_staged(staged: Path, target: Target, name: str, settings: Mapping[str, str]) -> None:
    """`write_once` of Parquet files, with a Spark session that has these settings if it needs one.

    Raises StoreUnavailableError if it fails, InvalidArgumentError for what the target cannot be."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from holdfast.spark.sessions import local_session, stop_session
    from holdfast.verify.process.canonical import spark_schema

    sessions: list[SparkSession] = []

    def frame() -> DataFrame:
        is_ours = SparkSession.getActiveSession() is None
        spark = local_session(f"{name}, written", settings=settings)
        if is_ours:
            sessions.append(spark)
        schema = spark_schema(ds.dataset(staged, format="parquet").schema)
        return spark.read.schema(schema).parquet(str(staged.absolute()))

    try:
        write_once(frame, staged, target, name)
    except (PySparkException, Py4JError, pa.ArrowException, OSError) as error:
        raise StoreUnavailableError(
            f"verified_write: {target}: {error}; see to it, and give the same command to go on"
        ) from error
    finally:
        for spark in sessions:
            stop_session(spark)


def _writer(df: DataFrame, target: Target) -> DataFrameWriter:
    writer = df.write.format(target.format).options(**target.options)
    return writer.partitionBy(*target.partition_by) if target.partition_by else writer


def _finish(writer: DataFrameWriter, target: Target) -> None:
    if target.table is not None:
        writer.saveAsTable(target.table)
    else:
        writer.save(target.path)


def _write_files(frame: Callable[[], DataFrame], target: Target, folder: Path, name: str) -> None:
    mark = f"_holdfast-{name}"
    old, part = (folder.with_name(f".{folder.name}.{name}.{end}") for end in ("old", "part"))
    if (folder / mark).exists():
        # Killed before what is not needed any more was removed.
        for each in (old, part):
            shutil.rmtree(each, ignore_errors=True)
        return
    if old.exists() and not folder.exists():
        # Killed between the two renames.
        old.rename(folder)
    is_there = folder.exists()
    if is_there and target.mode == IGNORE:
        return
    if is_there and target.mode not in (APPEND, OVERWRITE):
        raise InvalidArgumentError(
            f"verified_write: {folder} is there already; remove it, or give mode='overwrite' or "
            "'append', and submit the job again"
        )
    if not (part / mark).exists():
        _write_part(frame, target, part)
        (part / mark).touch()
        _sync(part)
    # Else it is whole, or some of it is moved already: Spark might cut the rows another way now.
    if is_there and target.mode == APPEND:
        _move_all(part, folder, name)
    else:
        if is_there:
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    _sync(folder.parent)


def _write_part(frame: Callable[[], DataFrame], target: Target, part: Path) -> None:
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    _writer(frame(), target).mode(OVERWRITE).save(str(part))
    for file in [each for each in part.rglob("*") if each.is_file()]:
        # Checksums of Hadoop have the names of their files, which change.
        if file.name.endswith(".crc"):
            file.unlink()
        else:
            # The journal says soon that all of it is written.
            _sync(file)
    for inner in [each for each in part.rglob("*") if each.is_dir()]:
        _sync(inner)


def _move_all(part: Path, folder: Path, name: str) -> None:
    """The mark comes last. Names are the same each time, so that a second time adds nothing."""
    files = sorted(each for each in part.rglob("*") if each.is_file())
    for file in sorted(files, key=lambda each: each.parent == part and each.name[0] == "_"):
        called = _NAMED_BY_SPARK.sub(rf"\1-{name}", file.name)
        place = folder / file.relative_to(part).parent
        place.mkdir(parents=True, exist_ok=True)
        file.rename(place / called)
    shutil.rmtree(part)
    _sync(folder)


def _write_delta(
    schema: pa.Schema, rows: Any, target: Target, folder: Path, name: str | None
) -> None:
    require("deltalake", "verified_write: delta", "delta")
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    is_there = DeltaTable.is_deltatable(str(folder))
    if name is not None and is_there and DeltaTable(folder).transaction_version(name) is not None:
        return
    options: dict[str, Any] = dict(target.options)
    unknown = sorted(set(options) - {"mergeSchema", "overwriteSchema"})
    if unknown:
        raise InvalidArgumentError(
            f"verified_write: delta: option {unknown[0]} is not known; leave it out"
        )
    if is_there and target.mode == IGNORE:
        return
    if is_there and target.mode not in (APPEND, OVERWRITE):
        raise InvalidArgumentError(
            f"verified_write: {folder} is there already; give mode='overwrite' or 'append', and "
            "submit the job again"
        )
    merges = options.get("mergeSchema") == "true"
    replaces = options.get("overwriteSchema") == "true"
    write_deltalake(
        folder,
        pa.RecordBatchReader.from_batches(schema, rows),
        mode=OVERWRITE if target.mode == OVERWRITE else APPEND,
        partition_by=list(target.partition_by) or None,
        schema_mode="merge" if merges else "overwrite" if replaces else None,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(name, 1)] if name is not None else []
        ),
    )


def _sync(path: Path) -> None:
    """A file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
