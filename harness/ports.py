"""Ports for parties that are started in tests and benchmarks."""

from __future__ import annotations

import secrets
import socket
from typing import Final

__all__ = ["free_port"]

_RANGE: Final = range(15_000, 32_000)
"""Below the ports that the kernel gives to connections, which would take one before its party
listens on it."""
_names: list[socket.socket] = []
"""What we hold for the ports that we have given."""


def free_port() -> int:
    """On loopback, and never the same twice, in this process or in others that run now and ask
    here: a port is listened on only later. No seed decides which: all processes with that seed
    would take the same."""
    while True:
        port = secrets.choice(_RANGE)
        if _is_free(port) and _reserve(port):
            return port


def _reserve(port: int) -> bool:
    """Hold a name for it, which the kernel gives once and takes back when we end."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0holdfast-port-{port}")
    except OSError:
        holder.close()
        return False
    _names.append(holder)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
