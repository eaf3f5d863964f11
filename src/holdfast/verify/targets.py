"""Where a program wants a DataFrame to be written, as replicas agree on it."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidArgumentError

__all__ = ["APPEND", "DELTA", "IGNORE", "OVERWRITE", "Target", "target_of"]

APPEND: Final = "append"
DELTA: Final = "delta"
IGNORE: Final = "ignore"
OVERWRITE: Final = "overwrite"
_ERROR: Final = ("errorifexists", "error", "default")


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `verified_write`."""

    format: str
    mode: str
    path: str | None
    table: str | None
    partition_by: tuple[str, ...]
    options: dict[str, str]

    def __post_init__(self) -> None:
        if self.path is not None and self.table is not None:
            raise InvalidArgumentError(
                f"verified_write: path {self.path!r} and table {self.table!r} are two places; give "
                "one of them"
            )
        if self.mode not in (APPEND, IGNORE, OVERWRITE, *_ERROR):
            raise InvalidArgumentError(
                f"verified_write: mode {self.mode!r} is none; take append, overwrite, ignore or "
                f"{_ERROR[0]}"
            )
        dynamic = [each for each in self.options if each.lower() == "partitionoverwritemode"]
        if dynamic:
            raise InvalidArgumentError(
                f"verified_write: option {dynamic[0]} would replace a part of what is there; write "
                "the partitions one by one, each under its own path"
            )

    @property
    def folder(self) -> Path | None:
        """None if it is not of this machine's file systems."""
        if self.path is None:
            return None
        found = urlsplit(self.path)
        return (
            Path(found.path if found.scheme else self.path)
            if found.scheme
            in (
                "",
                "file",
            )
            else None
        )

    def encode(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def decode(cls, text: str) -> Target:
        return msgspec.json.decode(text, type=cls)

    def __str__(self) -> str:
        return self.path or self.table or f"{self.format} {self.options}"


def target_of(name: str) -> str:
    """The stage that has the target of a write; its one row is the target."""
    return f"{name}.target"
