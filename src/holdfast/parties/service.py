"""A replica of a stage as its server sees it: links, tickets and questions, from many threads.

All that concerns the protocol is done in the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.parties.actions import answer_action
from holdfast.parties.loop import Loop
from holdfast.parties.neighbours import Neighbours
from holdfast.parties.tickets import LogTicket, read_log
from holdfast.protocol.line import Line
from holdfast.protocol.messages import Message
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.pieces import read_piece
from holdfast.wire.outbox import Outbox

__all__ = ["StageService"]


class _Replica(Protocol):
    """Who is behind it. All but the first three are asked for in the loop's thread."""

    name: str
    stream: str
    schema: pa.Schema

    @property
    def journal(self) -> Journal: ...

    @property
    def neighbours(self) -> Neighbours: ...

    def receive(self, sender: str, message: Message, now: int) -> None: ...

    def left(self, party: str) -> None:
        """Its link is gone."""

    def line(self, stream: str) -> Line | None:
        """What it publishes of a stream, None if it does not."""

    def answers(self, body: str) -> Mapping[str, Callable[[], Any]]:
        """What it can be asked to do, with these words."""


class StageService:
    def __init__(self, replica: _Replica, loop: Loop) -> None:
        self._replica = replica
        self._loop = loop

    def opened(self, party: str, outbox: Outbox) -> None:
        self._loop.post(lambda now: self._replica.neighbours.opened(party, outbox))

    def received(self, party: str, message: Message) -> None:
        self._loop.post(lambda now: self._replica.receive(party, message, now))

    def closed(self, party: str, outbox: Outbox) -> None:
        def leave(now: int) -> None:
            if self._replica.neighbours.closed(party, outbox):
                self._replica.left(party)

        self._loop.post(leave)

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        piece = read_piece(self._replica.journal, ticket)
        if piece is not None:
            return piece
        asked = LogTicket.read(ticket)
        return self._loop.call(lambda now: self._read(asked))

    def _read(self, asked: LogTicket) -> pa.RecordBatchReader:
        line = self._replica.line(asked.stream)
        if line is None:
            name = self._replica.name
            raise InvalidArgumentError(f"ticket: {name} has no {asked.stream} to read")
        return read_log(line, asked, self._replica.schema)

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        raise InvalidArgumentError(
            f"{self._replica.name}: is a replica of a stage; push rows to the source of a stream"
        )

    def act(self, name: str, body: bytes) -> bytes:
        return answer_action(name, self._replica.answers(body.decode(errors="replace")))

    def streams(self) -> Mapping[str, pa.Schema]:
        return {self._replica.stream: self._replica.schema}
