"""Whom a party speaks with: those it has called, and those that have called it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.protocol.messages import Message
from holdfast.wire.links import Link
from holdfast.wire.outbox import Outbox
from holdfast.wire.security import Security
from holdfast.wire.server import LogServer

__all__ = ["Neighbours", "pulse_of", "wire_status"]

PULSE: Final = 0.2
"""Seconds between two signs of life on a link, at most: the other side may have a much shorter
heartbeat, and so less patience, than this one."""


def pulse_of(heartbeat: float) -> tuple[float, float]:
    """Seconds between two signs of life on a link, and of silence after which it is taken for
    broken, of a party with this heartbeat of the protocol."""
    return min(PULSE, heartbeat), max(1.0, 10 * heartbeat)


class Neighbours:
    """Links to some parties, and the outboxes of links from others. Not for several threads."""

    def __init__(
        self,
        me: str,
        addresses: Mapping[str, str],
        security: Security | None,
        receive: Callable[[str, Message], None],
        *,
        heartbeat: float,
    ) -> None:
        """`addresses`: of those to call. `heartbeat`: of the protocol, in seconds."""
        pulse, silence = pulse_of(heartbeat)
        self.links = {
            party: Link(me, party, address, security, receive, heartbeat=pulse, silence=silence)
            for party, address in addresses.items()
        }
        self._callers: dict[str, Outbox] = {}

    def opened(self, party: str, outbox: Outbox) -> None:
        """The party has called: what is for it goes into this outbox from now on."""
        self._callers[party] = outbox

    def closed(self, party: str, outbox: Outbox) -> bool:
        """Its link with this outbox is gone. False if it has called again since."""
        if self._callers.get(party) is not outbox:
            return False
        del self._callers[party]
        return True

    def send(self, to: str, message: Message) -> None:
        """It may get lost: the protocol knows."""
        if to in self.links:
            self.links[to].send(message)
        elif to in self._callers:
            self._callers[to].send(message)

    def close(self) -> None:
        for link in self.links.values():
            link.close()


def wire_status(server: LogServer, links: Iterable[Link]) -> dict[str, Any]:
    """What is told of who is connected, and how much was refused."""
    some = list(links)
    return {
        "received_bytes": sum(link.received_bytes for link in some),
        "links": {link.to: link.is_connected for link in some},
        "callers": server.parties,
        "refused": server.refused + Counter(message=sum(link.refused for link in some)),
    }
