"""Client's end of a stream whose replicas share the work.

Each seat is read for itself, from whoever sits there. What is shown are final rows in the order of
the buckets, as far as all seats have come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.pipeline.machine.client import Client, Shown
from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.tuples import Kind, Row


class SharedClient:
    """`seats`: their streams, and who may publish each. The rest is as a client has it."""

    def __init__(
        self,
        seats: Mapping[str, Sequence[str]],
        *,
        heartbeat: int = 100_000,
        missed: int = 3,
        may_skip: bool = False,
        position: int = 0,
    ) -> None:
        self.position = position
        self._clients = [
            Client(
                stream,
                replicas,
                heartbeat=heartbeat,
                missed=missed,
                tentative=False,
                may_skip=may_skip,
                position=position,
            )
            for stream, replicas in seats.items()
        ]
        self._rows: list[Row] = []
        """What waits for other seats."""

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Pieces of some seat that nobody keeps any more."""
        return sorted(gap for client in self._clients for gap in client.gaps)

    @property
    def done(self) -> int | None:
        return self._clients[0].done

    @done.setter
    def done(self, boundary: int | None) -> None:
        for client in self._clients:
            client.done = boundary

    @property
    def next_wake(self) -> float:
        return min(client.next_wake for client in self._clients)

    def wake(self, now: int) -> tuple[list[Shown], list[Send]]:
        return self._gather([client.wake(now) for client in self._clients])

    def receive(self, sender: str, message: Message, now: int) -> tuple[list[Shown], list[Send]]:
        return self._gather([client.receive(sender, message, now) for client in self._clients])

    def _gather(
        self, told: Sequence[tuple[list[Shown], list[Send]]]
    ) -> tuple[list[Shown], list[Send]]:
        sends = [send for _, some in told for send in some]
        self._rows += [row for shown, _ in told for each in shown for row in each.rows]
        boundary = min(client.intake.position for client in self._clients)
        if boundary <= self.position:
            return [], sends
        self.position = boundary
        # A bucket is of one seat: its rows stay in their order.
        self._rows.sort(key=lambda row: row.stime)
        ready = tuple(row for row in self._rows if row.stime < boundary)
        self._rows = self._rows[len(ready) :]
        return [Shown(Kind.INSERT, boundary, ready)], sends
