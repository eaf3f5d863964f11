"""What goes wrong between processes."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["RefusedError", "UnreachableError", "WireError"]


class WireError(HoldfastError):
    """What came over the wire, or was to go over it, is not what it should be."""


class UnreachableError(WireError):
    """The other side cannot be reached now, or does not answer; ask again later."""


class RefusedError(WireError):
    """The other side has refused this, and would again."""
