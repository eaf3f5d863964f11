"""Errors that end the demonstration."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["DemoError"]


class DemoError(HoldfastError):
    """The demonstration cannot run here, or saw an answer that is not what it must be."""
