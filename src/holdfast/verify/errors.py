"""What can go wrong with a verified job as a whole."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["JobFailedError", "NotAgreedError"]


class JobFailedError(HoldfastError):
    """Too few replicas agreed, or could; the message names who disagreed and the remedy."""


class NotAgreedError(HoldfastError):
    """Too few replicas have told the same of a part for too long."""
