"""Ports for parties that are started in tests and benchmarks."""

from __future__ import annotations

import secrets
import socket
from typing import Final

__all__ = ["free_port"]

_RANGE: Final = range(15_000, 32_000)
"""Below the ports that the kernel gives to connections, which would take one before its party
listens on it."""
_given: set[int] = set()


def free_port() -> int:
    """On loopback, and never the same twice in a process. No seed decides which: all processes with
    that seed would take the same."""
    while True:
        port = secrets.choice(_RANGE)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
