"""What goes wrong between the processes of the edge."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["EdgeError", "FrameError", "NodeEndedError", "SilentError", "StrangerError"]


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
