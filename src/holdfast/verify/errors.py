"""What can go wrong with a verified job as a whole."""

from __future__ import annotations

from typing import Final

from holdfast.errors import HoldfastError, InvalidArgumentError

__all__ = ["REFUSED", "JobFailedError", "NotAgreedError", "RefusedWriteError"]

REFUSED: Final = 4
"""The exit code of a replica whose code has tried to write."""


class JobFailedError(HoldfastError):
    """Too few replicas agreed, or could; the message names who disagreed and the remedy."""


class NotAgreedError(HoldfastError):
    """Too few replicas have told the same of a part for too long."""


class RefusedWriteError(InvalidArgumentError):
    """The code of a replica has tried to write what is not agreed upon."""
