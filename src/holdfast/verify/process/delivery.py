"""Delivery of what was agreed upon: Parquet, whole or not at all, with a receipt."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.verify.machine import Agreed, Holder, Plan, Standing
from holdfast.verify.process.pinned_files import pin_files
from holdfast.verify.process.slice_files import Storage, UnreadableError, read_slice

NAME: Final = "_receipt.json"
"""Spark leaves out files whose names begin like this."""


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    submission: str
    job: str
    arguments: tuple[str, ...]
    pinned: Mapping[str, str]
    """See `Account.pinned`, and the next two."""
    pins: str
    stages: Mapping[str, tuple[str, ...]]
    written: Mapping[str, str]
    files: Mapping[str, str] = {}
    """SHA-256 of each file of the result, by its path in the folder."""

    def write(self, folder: Path) -> None:
        """With the files that are there."""
        whole = msgspec.structs.replace(self, files=_digests(folder))
        data = msgspec.json.encode(whole, order="deterministic")
        with (folder / NAME).open("wb") as file:
            file.write(msgspec.json.format(data) + b"\n")
            file.flush()
            # As the files that it names.
            os.fsync(file.fileno())


def digest_of_receipt(folder: Path) -> str:
    """Empty if there is no receipt."""
    try:
        return sha256((folder / NAME).read_bytes()).hexdigest()
    except OSError:
        return ""


def check_receipt(folder: Path) -> Iterator[str]:
    """Each file that is not as it was delivered, gone, or new."""
    receipt = read_receipt(folder)
    found = _digests(folder)
    for name in sorted({*found, *receipt.files}):
        if name not in found:
            yield f"{name}: is gone"
        elif name not in receipt.files:
            yield f"{name}: is new"
        elif found[name] != receipt.files[name]:
            yield f"{name}: has other bytes"


def read_receipt(folder: Path) -> Receipt:
    path = folder / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Receipt)
    except OSError as error:
        raise InvalidArgumentError(
            f"{path}: {error.strerror}; name a folder that `holdfast verify` has delivered"
        ) from error
    except msgspec.MsgspecError as error:
        raise InvalidArgumentError(f"{path}: {error}; this is no receipt of a job") from error


def _digests(folder: Path) -> dict[str, str]:
    names = [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / NAME
    ]
    files = pin_files(str(folder / name) for name in names)
    return {name: file.digest.hex() for name, file in zip(names, files, strict=True)}


GROUP_ROWS: Final = 2**20
"""Rows of a row group of Parquet, of which columns are read as a whole."""
GROUP_BYTES: Final = 2**27
"""Bytes in memory after which a row group has no more rows. So much is held, and one piece more."""

Broken = Callable[[str, int, int], None]
"""Told of each copy that is not what was agreed upon: its stage, slice and maker."""


class UndeliverableError(StoreUnavailableError):
    """Of some slice no copy is what was agreed upon."""


def check_output(path: Path) -> None:
    """Raises InvalidArgumentError if something is there, or nothing can be written there."""
    if path.exists():
        raise InvalidArgumentError(f"--output: {path} is there already; remove it or name another")
    if not os.access(path.resolve().parent, os.W_OK):
        raise InvalidArgumentError(
            f"--output: {path.parent} is no folder that may be written to; name one that is"
        )


def part_of(output: Path, job: str) -> Path:
    """Where a job writes its result before it is whole."""
    return output.with_name(f".{output.name}.{job}.part")


def deliver(
    plan: Plan,
    standing: Standing,
    storage: Path | Storage,
    output: Path,
    broken: Broken,
    *,
    job: str = "job",
    staged: Callable[[Path], None] = lambda part: None,
    ready: Callable[[int, os.stat_result], None] = lambda rows, folder: None,
) -> int:
    """Write `output`/STAGE/SLICE.parquet for each stage that no other reads; answers the rows.

    Every copy is hashed while it is read, and another one is taken where it is not what was agreed
    upon. Raises UndeliverableError if there is none, another StoreUnavailableError if it cannot be
    read or written, InvalidArgumentError if Parquet has no such columns; then nothing is written.
    `staged` is called with the folder that has all of it, and may take stages out; `ready` when the
    folder only gets its name.
    """
    part = part_of(output, job)
    try:
        # A coordinator that was killed may have left it.
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        counts = _write_all(plan, standing, storage, part, broken)
        staged(part)
        rows = sum(count for stage, count in counts.items() if (part / stage).exists())
        _sync(part)
        if output.exists():
            raise InvalidArgumentError(
                f"--output: {output} was made by somebody else meanwhile; name another, and submit "
                "the job again"
            )
        ready(rows, part.stat())
        part.rename(output)
        try:
            _sync(output.resolve().parent)
        except OSError:
            output.rename(part)
            raise
    except pa.ArrowNotImplementedError as error:
        raise InvalidArgumentError(
            f"--output: {output}: {error}; let the last stages cast such columns"
        ) from error
    except (OSError, pa.ArrowException) as error:
        why = getattr(error, "strerror", None) or error
        raise StoreUnavailableError(
            f"--output: {output}: {why}; make room for it, and submit the job again"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return rows


def _write_all(
    plan: Plan, standing: Standing, storage: Path | Storage, part: Path, broken: Broken
) -> dict[str, int]:
    """The rows of each stage."""
    rows = dict.fromkeys(plan.outputs, 0)
    lost: list[UndeliverableError] = []
    for stage in plan.outputs:
        folder = part / stage
        folder.mkdir()
        for number, agreed in sorted(standing.verdicts[stage].slices.items()):
            rows[stage] += agreed.rows
            try:
                _write(stage, number, agreed, storage, folder / f"{number:05}.parquet", broken)
            except UndeliverableError as error:
                # The others are looked at too, so that all bad copies are known at once.
                lost.append(error)
        _sync(folder)
    if lost:
        raise lost[0]
    return rows


def _write(
    stage: str, number: int, agreed: Agreed, storage: Path | Storage, path: Path, broken: Broken
) -> None:
    def tell(holder: Holder, _: str) -> None:
        broken(stage, number, holder.replica)

    writer = None
    read = read_slice(storage, agreed.digest, agreed.rows, agreed.holders, tell)
    pieces = iter(lambda: _next(read), None)
    try:
        for rows in grouped(pieces):
            writer = writer or pq.ParquetWriter(path, rows.schema)
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))
    finally:
        if writer is not None:
            writer.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())


def grouped(
    pieces: Iterable[pa.Table], most_rows: int = GROUP_ROWS, most_bytes: int = GROUP_BYTES
) -> Iterator[pa.Table]:
    """The pieces in row groups, each as large as it may be, or one piece larger."""
    waiting: list[pa.Table] = []
    for piece in pieces:
        waiting.append(piece)
        rows = sum(each.num_rows for each in waiting)
        if rows >= most_rows or sum(each.nbytes for each in waiting) >= most_bytes:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _next(pieces: Iterator[pa.Table]) -> pa.Table | None:
    try:
        return next(pieces, None)
    except UnreadableError:
        raise
    except StoreUnavailableError as error:
        raise UndeliverableError(str(error)) from error


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
