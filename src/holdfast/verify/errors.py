"""What can go wrong with a verified job as a whole."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["JobFailedError"]


class JobFailedError(HoldfastError):
    """Too few replicas agreed, or could; the message names who disagreed and the remedy."""
