"""Whom a party speaks with: those it has called, and those that have called it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.protocol.messages import Message
from holdfast.wire.links import Link
from holdfast.wire.outbox import Outbox
from holdfast.wire.security import Security

__all__ = ["Neighbours"]


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
        silence = max(1.0, 10 * heartbeat)
        self.links = {
            party: Link(me, party, address, security, receive, heartbeat=heartbeat, silence=silence)
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
