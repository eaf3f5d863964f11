"""Every error Holdfast raises on purpose, as one tree.

A message names the place and the remedy. An operation that raises one of these has changed nothing.
"""

from __future__ import annotations

__all__ = [
    "EmptyWindowError",
    "HoldfastError",
    "InvalidArgumentError",
    "InvalidValueError",
    "PolicyNotMonotoneError",
    "StoreCorruptError",
    "StoreError",
    "StoreUnavailableError",
    "TimeOrderError",
    "WindowDroppedError",
    "WindowError",
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
