"""Packages that only some sources and sinks need, and that a plain installation does not bring."""

from __future__ import annotations

from importlib import import_module

from holdfast.errors import InvalidArgumentError

__all__ = ["require"]


def require(module: str, place: str, extra: str) -> None:
    """Refuse to go on without the module, and say how to get it."""
    try:
        import_module(module)
    except ImportError as error:
        raise InvalidArgumentError(
            f"{place} needs a package that is not installed ({error}); "
            f"pip install 'holdfast[{extra}]'"
        ) from None
