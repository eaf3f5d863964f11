"""Liveness of peers that have hung up: calls to their addresses.

A process that was killed hangs up and refuses calls; one that was cut off, or whose machine is
gone, does neither. Its sockets do not close in one moment: one call may still be answered, so there
are several.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.config.addresses import Address

PROBE: Final = 0.02
"""Seconds to see whether an address refuses a call; longer, and nothing is known."""
AGAIN: Final = (0.002, 0.005, 0.01, 0.02)
"""Seconds until the next of several probes."""

logger = logging.getLogger(__name__)


class Probes:
    """`ended` is told of each node that is gone."""

    def __init__(
        self,
        name: str,
        addresses: Mapping[str, Address],
        ended: Callable[[str], None] | None,
        counts: Counter[str],
    ) -> None:
        self._name = name
        self._counts = counts
        self._addresses = dict(addresses)
        self._ended = ended
        self._waiting: dict[str, tuple[float, int]] = {}
        """Those to be probed again, when, and for the how manieth time."""

    def watch(self, node: str, address: Address) -> None:
        self._addresses.setdefault(node, address)

    @property
    def due(self) -> float | None:
        """Seconds until somebody is to be probed again."""
        return AGAIN[0] if self._waiting else None

    def probe(self, node: str, attempt: int = 0) -> None:
        """It has hung up: see whether it is still there."""
        address = self._addresses.get(node)
        if address is None or self._ended is None:
            return
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(PROBE)
            try:
                sock.connect(tuple(address))
                self._counts["probes_answered"] += 1
            except ConnectionRefusedError:
                logger.info("%s: %s has ended", self._name, node)
                self._ended(node)
                return
            except OSError:
                self._counts["probes_without_answer"] += 1
        if attempt < len(AGAIN):
            self._waiting[node] = (time.monotonic() + AGAIN[attempt], attempt + 1)

    def wake(self, is_open: Callable[[str], bool]) -> None:
        """Probe again those whose time has come, unless they have called meanwhile."""
        now = time.monotonic()
        for node, (at, attempt) in list(self._waiting.items()):
            if at <= now:
                del self._waiting[node]
                if not is_open(node):
                    self.probe(node, attempt)
