"""Methods of PySpark that are replaced while code of a replica runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self


class Patches:
    """A context manager: what was replaced is put back in the end."""

    def __init__(self) -> None:
        self._before: Final[list[tuple[type, str, Any]]] = []

    def replace(self, kind: type, name: str, other: Callable[..., Any]) -> None:
        before = getattr(kind, name)
        self._before.append((kind, name, before))
        setattr(kind, name, wraps(before)(other))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        while self._before:
            owner, name, before = self._before.pop()
            setattr(owner, name, before)
