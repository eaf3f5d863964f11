"""Submissions that have not ended, and what may not change until they have.

The same command goes on with such a submission. It is known by its job's file and by where its
result is to go; a mark in its folder says so from before its first process starts until its account
is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

import holdfast
from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.storage.atomic_file import write_whole
from holdfast.verify.process.config import Config
from holdfast.verify.process.pinned_files import SourceFile

NAME: Final = "unfinished"
SHOWN: Final = 5
"""Changes that an error names."""


class _Marked(msgspec.Struct, frozen=True):
    file: str
    output: str


class Mark:
    """In the folder of a submission."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def set(self, file: Path, output: Path) -> None:
        try:
            write_whole(self._path, msgspec.json.encode(_marked(file, output)))
        except OSError as error:
            raise StoreUnavailableError(
                f"{self._path}: {error.strerror}; give a --work that may be written to"
            ) from error

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def find_unfinished(work: Path, file: Path, output: Path) -> list[Path]:
    """The folders of such submissions, the latest first."""
    wanted = _marked(file, output)
    marks = [path for path in work.glob(f"*/{NAME}") if _read(path) == wanted]
    return [path.parent for path in sorted(marks, key=lambda path: path.parent.name, reverse=True)]


def pin(
    file: Path,
    code: bytes,
    config: Config,
    sources: Mapping[str, tuple[SourceFile, ...]],
    arguments: Sequence[str] = (),
) -> dict[str, str]:
    """Digests of all that may not change, by words that an error can use."""
    found = {
        f"setting {name}": _digest(msgspec.json.encode(value))
        for name, value in msgspec.to_builtins(config).items()
    }
    found[f"the job's file {file}"] = _digest(code)
    found["the arguments"] = _digest(msgspec.json.encode(arguments))
    for name, files in sources.items():
        for each in files:
            found[f"source {name}: {each.path}"] = each.digest.hex()
    found["Holdfast"] = holdfast.__version__
    return found


def check_pins(name: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raises InvalidArgumentError that names what has changed."""
    changed = [
        f"{what} {_how(what, before, now)}"
        for what in (*before, *(each for each in now if each not in before))
        if before.get(what) != now.get(what)
    ]
    if not changed:
        return
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    raise InvalidArgumentError(
        f"{name} was interrupted and cannot go on: {', '.join(changed[:SHOWN])}{more}. What was "
        "agreed upon would not fit what is computed now: put it back as it was, or begin anew with "
        "--fresh"
    )


def _how(what: str, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    if what not in now:
        return "is gone"
    return "has changed" if what in before else "is new"


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def _marked(file: Path, output: Path) -> _Marked:
    return _Marked(str(file.resolve()), str(output.resolve()))


def _read(path: Path) -> _Marked | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Marked)
    except (OSError, msgspec.MsgspecError):
        return None
