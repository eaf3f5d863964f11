"""A receipt in the folder of a result: what it was made of, and the digest of each of its files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidArgumentError
from holdfast.verify.pinned_files import pin_files

__all__ = ["NAME", "Receipt", "check_receipt", "digest_of_receipt", "read_receipt"]

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
