"""A replica of a stage as its server sees it: links, tickets and questions, from many threads.

All that concerns the protocol is done in the loop's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.parties.actions import answer_action
from holdfast.parties.inbox import Inbox
from holdfast.parties.loop import Loop
from holdfast.parties.neighbours import Neighbours
from holdfast.parties.tickets import LogTicket, read_log
from holdfast.protocol.line import Line
from holdfast.protocol.messages import Feed, Message, Vitals
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.pieces import read_piece
from holdfast.wire.codec import weight
from holdfast.wire.outbox import Outbox

__all__ = ["StageService"]


class _Workplace(Protocol):
    """What it is the door of. `neighbours` is for the loop's thread."""

    name: str
    stream: str
    schema: pa.Schema
    loop: Loop
    neighbours: Neighbours

    @property
    def journal(self) -> Journal: ...


class _Worker(Protocol):
    """Who works there. All but `answers` is for the loop's thread."""

    def receive(self, sender: str, message: Message, now: int) -> None: ...

    def left(self, party: str) -> None: ...

    def line(self, stream: str) -> Line | None: ...

    def answers(self, body: str) -> Mapping[str, Callable[[], Any]]: ...


class StageService:
    def __init__(self, workplace: _Workplace, worker: _Worker) -> None:
        self._workplace = workplace
        self._worker = worker
        self._inbox = Inbox(workplace.loop)

    def opened(self, party: str, outbox: Outbox) -> None:
        self._workplace.loop.post(lambda now: self._workplace.neighbours.opened(party, outbox))

    def received(self, party: str, message: Message) -> None:
        if isinstance(message, Feed | Vitals):
            # Whoever is read answers on the link that was opened to it; here anybody may say that
            # he is one of them, and vote for others.
            raise InvalidArgumentError(
                f"{self._workplace.name}: takes a {type(message).__name__} on links that it has "
                "opened itself only"
            )
        self._inbox.put(weight(message), lambda now: self._worker.receive(party, message, now))

    def closed(self, party: str, outbox: Outbox) -> None:
        def leave(now: int) -> None:
            if self._workplace.neighbours.closed(party, outbox):
                self._worker.left(party)

        self._workplace.loop.post(leave)

    def read(self, ticket: bytes) -> pa.Table | pa.RecordBatchReader:
        piece = read_piece(self._workplace.journal, ticket)
        if piece is not None:
            return piece
        asked = LogTicket.read(ticket)
        return self._workplace.loop.call(lambda now: self._read(asked))

    def _read(self, asked: LogTicket) -> pa.RecordBatchReader:
        line = self._worker.line(asked.stream)
        if line is None:
            name = self._workplace.name
            raise InvalidArgumentError(f"ticket: {name} has no {asked.stream} to read")
        return read_log(line, asked, self._workplace.schema)

    def push(self, stream: str, batch: pa.RecordBatch) -> bytes:
        raise InvalidArgumentError(
            f"{self._workplace.name}: is a replica of a stage; push rows to the source of a stream"
        )

    def act(self, name: str, body: bytes) -> bytes:
        return answer_action(name, self._worker.answers(body.decode(errors="replace")))

    def streams(self) -> Mapping[str, pa.Schema]:
        return {self._workplace.stream: self._workplace.schema}
