"""Import of optional packages, with an error that names the extra to install."""

from __future__ import annotations

from importlib import import_module

from holdfast.errors import InvalidArgumentError


def require(module: str, place: str, extra: str) -> None:
    """Refuse to go on without the module, and say how to get it."""
    try:
        import_module(module)
    except ImportError as error:
        raise InvalidArgumentError(
            f"{place} needs a package that is not installed ({error}); "
            f"pip install 'holdfast[{extra}]'"
        ) from None
