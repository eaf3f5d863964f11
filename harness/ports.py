"""Ports for parties that are started in tests and benchmarks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from itertools import cycle
from random import SystemRandom
from typing import Final

__all__ = ["free_port"]

_RANGE: Final = range(15_000, 32_000)
"""Below the ports that the kernel gives to connections, which would take one before its party
listens on it."""
_BLOCK: Final = 500


def free_port() -> int:
    """On loopback, and not given again before hundreds of others were, nor by another process that
    runs now: a port is listened on only later."""
    with _one_at_a_time:
        return next(_ports)


def _give() -> Iterator[int]:
    """Those of the block that this process holds: it is named by one open socket, however many
    ports are given, for a process with more than a thousand open files is no longer served by
    those who wait with `select`."""
    # No seed decides which: all processes with that seed would begin with the same.
    blocks = [_RANGE[at : at + _BLOCK] for at in range(0, len(_RANGE), _BLOCK)]
    for block in SystemRandom().sample(blocks, len(blocks)):
        name = _hold(block)
        if name is not None:
            break
    else:
        raise RuntimeError(f"{len(blocks)} processes hold all ports of {_RANGE}; end some")
    with name:
        misses = 0
        for port in cycle(block):
            if _is_free(port):
                misses = 0
                yield port
            elif (misses := misses + 1) == _BLOCK:
                raise RuntimeError(f"no port of {block} is free; end those who listen on them")


_ports = _give()
_one_at_a_time = threading.Lock()


def _hold(block: range) -> socket.socket | None:
    """A name for it, which the kernel gives once and takes back when we end."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0holdfast-ports-{block[0]}")
    except OSError:
        name.close()
        return None
    return name


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
