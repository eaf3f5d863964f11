"""Every error that Holdfast raises on purpose, as one tree.

A message names the place and the remedy. An operation that raises one of these has changed nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "REFUSED",
    "ConflictError",
    "EdgeError",
    "EmptyWindowError",
    "ForbiddenError",
    "FrameError",
    "HoldfastError",
    "InvalidArgumentError",
    "InvalidValueError",
    "JobFailedError",
    "NodeEndedError",
    "NotAgreedError",
    "NotFoundError",
    "PolicyNotMonotoneError",
    "QuotaError",
    "RefusedError",
    "RefusedWriteError",
    "SilentError",
    "StoreCorruptError",
    "StoreError",
    "StoreUnavailableError",
    "StrangerError",
    "TenantError",
    "TimeOrderError",
    "UnavailableError",
    "UnreachableError",
    "WindowDroppedError",
    "WindowError",
    "WireError",
]


class HoldfastError(Exception):
    """Root of the tree: catch this to catch all of ours and nothing else."""


class InvalidArgumentError(HoldfastError, ValueError):
    """An argument of a public call makes no sense; the message names it."""


class WindowError(HoldfastError):
    """A window refused an operation; the window is as it was before the call."""


class EmptyWindowError(WindowError, LookupError):
    """More was to be evicted than the window holds."""


class InvalidValueError(WindowError, ValueError):
    """A value has no meaning for the monoid (NaN in an order, a string in a sum ...)."""


class TimeOrderError(WindowError, ValueError):
    """An update is older than the newest one in the window."""


class PolicyNotMonotoneError(WindowError):
    """A slide policy answered in a way that no eviction can satisfy."""


class WindowDroppedError(WindowError):
    """The window was dropped; only its forks, if any, live on."""


class StoreError(HoldfastError):
    """Something is wrong with the key-value store behind a window."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached now; the same call may be made again later."""


class StoreCorruptError(StoreError):
    """The store holds something that this window cannot have written."""


class WireError(HoldfastError):
    """What came over the wire, or was to go over it, is not what it should be."""


class UnreachableError(WireError):
    """The other side cannot be reached now, or does not answer; ask again later."""


class RefusedError(WireError):
    """The other side has refused this, and would again."""


class EdgeError(HoldfastError):
    """Something is wrong at the edge."""


class FrameError(EdgeError):
    """Bytes that are no frame, or a frame that is no message: its connection is closed."""


class StrangerError(EdgeError):
    """Who calls does not know the key, or is not whom was called."""


class SilentError(EdgeError):
    """A node does not answer."""


class NodeEndedError(EdgeError):
    """A node of the edge cannot go on."""


class TenantError(HoldfastError):
    """A request that cannot be met; nothing has changed."""

    status = 400
    retry_after: int | None = None
    """Seconds after which the same request may succeed."""


class ForbiddenError(TenantError):
    """Without a token that is known, or about what belongs to someone else."""

    status = 403


class NotFoundError(TenantError):
    """Not there, or not to be seen by this tenant: nobody can tell which."""

    status = 404


class ConflictError(TenantError):
    """Something else is there already."""

    status = 409


class QuotaError(TenantError):
    """More than the tenant may have."""

    status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(TenantError):
    """Not now: what calculates is being started again."""

    status = 503
    retry_after = 5


REFUSED: Final = 4
"""The exit code of a replica whose code has tried to write."""


class JobFailedError(HoldfastError):
    """Too few replicas agreed, or could; the message names who disagreed and the remedy."""


class NotAgreedError(HoldfastError):
    """Too few replicas have told the same of a part for too long."""


class RefusedWriteError(InvalidArgumentError):
    """The code of a replica has tried to write what is not agreed upon."""
