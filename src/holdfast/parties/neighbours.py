"""Whom a party speaks with: those it has called, and those that have called it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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
        self.callers: dict[str, Outbox] = {}

    def send(self, to: str, message: Message) -> None:
        """It may get lost: the protocol knows."""
        if to in self.links:
            self.links[to].send(message)
        elif to in self.callers:
            self.callers[to].send(message)

    def close(self) -> None:
        close_all(self.links.values())


def close_all(links: Iterable[Link]) -> None:
    for link in links:
        link.close()
