"""What a server serves: the party behind it, as `LogServer` sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from holdfast.wire.frames import Message
from holdfast.wire.outbox import Outbox

__all__ = ["Service"]


class Service(Protocol):
    """Called by many threads at a time; those of one link come in order.

    A HoldfastError is told to the client, anything else that is raised is not. Nothing may wait
    for long: closing the server waits for it.
    """

    def opened(self, party: str, outbox: Outbox) -> None:
        """A party has opened a link: what is put into the outbox goes there. A new link of a party
        replaces its old one, whose end may be told after this."""

    def received(self, party: str, message: Message) -> None:
        """A HoldfastError refuses the message; the link goes on."""

    def closed(self, party: str, outbox: Outbox) -> None:
        """The link with this outbox is gone."""

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        """The rows that a ticket stands for."""

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        """Take in rows; what is answered is the acknowledgement that the client gets."""

    def act(self, name: str, body: bytes) -> bytes: ...

    def streams(self) -> Mapping[str, pa.Schema]: ...
