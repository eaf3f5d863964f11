"""What processes of a job are given to read: a struct as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from holdfast.errors import InvalidArgumentError

__all__ = ["read_paper", "write_paper"]

Paper = TypeVar("Paper")


def write_paper(path: Path, paper: object) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(paper)))


def read_paper(path: Path, kind: type[Paper], remedy: str, wrong: str) -> Paper:
    """What an error says: `remedy` of a file that cannot be read, `wrong` of another one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}; {remedy}") from error
    except msgspec.MsgspecError as error:
        raise InvalidArgumentError(f"{path}: {error}; {wrong}") from error
