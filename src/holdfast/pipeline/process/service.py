"""A replica as its server sees it: links, tickets and questions, from many threads.

All that concerns the protocol is done in the loop's thread.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import Feed, Message, Vitals
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.stages.entries import Journal, read_piece
from holdfast.runtime.loop import Inbox, Loop
from holdfast.transport.codec import weight
from holdfast.transport.links import Link, Outbox
from holdfast.transport.security import Security
from holdfast.transport.server import LogServer


def answer_action(name: str, answers: Mapping[str, Callable[[], object]]) -> bytes:
    """`answers`: what it can be asked for."""
    if name not in answers:
        known = " or ".join(repr(each) for each in answers)
        raise InvalidArgumentError(f"action: there is no {name!r}; ask for {known}")
    return json.dumps(answers[name]()).encode()


@dataclass(frozen=True, slots=True)
class LogTicket:
    """The final rows of a stream from one boundary to another."""

    stream: str
    start: int
    end: int

    def write(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def read(ticket: bytes) -> LogTicket:
        try:
            asked = LogTicket(**json.loads(ticket))
            if not isinstance(asked.stream, str) or not all(
                type(each) is int for each in (asked.start, asked.end)
            ):
                raise TypeError("of other types")
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidArgumentError(
                f"ticket: cannot be read ({type(error).__name__}); give a stream, start and end"
            ) from None
        return asked


def read_log(line: Line, asked: LogTicket, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of whole segments in that stretch, one batch after the other."""
    if asked.start < line.dropped_before or asked.end > line.end:
        raise InvalidArgumentError(
            f"ticket: asks for {asked.start} to {asked.end}; {line.stream} is kept from "
            f"{line.dropped_before} to {line.end}"
        )
    chunks = [
        row.value
        for segment in list(line.segments.since(asked.start))
        for row in segment.rows
        if asked.start <= row.stime < asked.end
    ]
    batches = (batch for chunk in chunks for batch in chunk.table().to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


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
