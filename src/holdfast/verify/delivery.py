"""Hands a stage's output over to the user, as Parquet files, once all of it is agreed upon.

Done by whoever is trusted: every piece is hashed again on its way, so that a replica that reported
the right digest and stored something else cannot spoil the result, not even in the last stage.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pyarrow.parquet as pq

from holdfast.errors import InvalidArgumentError, StoreError
from holdfast.protocol.verification import Holder, Verdict
from holdfast.verify.reading import Accuser
from holdfast.verify.slice_files import read_slice

__all__ = ["deliver"]


def deliver(storage: Path, verdict: Verdict, target: Path, accuser: Accuser) -> int:
    """Write the slices into a new folder, a file for each; how many rows there are.

    Nothing is seen under the folder's name before all of it is there. Raises StoreError if no right
    copy of a slice is left; `accuser` was told of those that are not right.
    """
    if not verdict.is_ok:
        raise InvalidArgumentError(
            f"stage {verdict.stage}: is not agreed upon; wait until the job is done"
        )
    if target.exists():
        raise StoreError(f"{target}: is there already; give a new folder, or remove this one")
    part = target.with_name(f".{target.name}-{secrets.token_hex(4)}.part")
    try:
        part.mkdir(parents=True)
        rows = sum(
            _write(storage, verdict, number, part / f"part-{number:05}.parquet", accuser)
            for number in sorted(verdict.slices)
        )
        part.rename(target)
    except OSError as error:
        raise StoreError(
            f"{target}: {error.strerror}; give a folder that can be written to"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return rows


def _write(storage: Path, verdict: Verdict, number: int, path: Path, accuser: Accuser) -> int:
    agreed = verdict.slices[number]

    def tell(holder: Holder, why: str) -> None:
        accuser.broken(verdict.stage, number, holder.replica)

    pieces = read_slice(storage, agreed.digest, agreed.holders, tell)
    first = next(pieces)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for piece in pieces:
            writer.write_table(piece)
    return agreed.rows
