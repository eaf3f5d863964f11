"""A reader that takes one replica's lines by the word: no switching, nothing put right.

The simulator's auditor: what it is shown must obey the rules of a line by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.pipeline.machine.client import Shown
from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Heartbeat,
    Item,
    Message,
    Preview,
    Read,
    RecDone,
    Stable,
    Subscribe,
    Undo,
    Vitals,
)
from holdfast.pipeline.machine.tuples import Kind
from simulator.network import Network
from simulator.parties.process import Process

PERIOD: Final = 300_000


class Tap:
    """Reads one stream of one replica."""

    def __init__(
        self, name: str, stream: str, replica: str, process: Process, network: Network
    ) -> None:
        self.name = name
        self.stream = stream
        self.replica = replica
        self.process = process
        self.network = network
        self.shown: list[tuple[int, Shown]] = []
        self.gaps: list[tuple[int, int]] = []
        self.position = 0
        self._previewed = 0
        self._subscription = -1
        self._expected = 0
        self._beat()

    def _beat(self) -> None:
        if self._subscription < 0:
            self._subscribe()
        place = {self.stream: self.position}
        self._send(Heartbeat(place, self.process.now, place))
        self.process.after(PERIOD, self._beat)

    def _subscribe(self) -> None:
        self._subscription = max(self._subscription + 1, self.process.now)
        self._expected = 0
        shown = max(self.position, self._previewed)
        self._send(Subscribe(self.stream, self._subscription, self.position, shown))

    def _send(self, message: Message) -> None:
        self.network.send(self.name, self.replica, message)

    def deliver(self, sender: str, message: Message) -> None:
        if isinstance(message, Vitals):
            progress = message.streams[self.stream]
            if (progress.subscription, progress.sent) != (self._subscription, self._expected):
                self._subscribe()
        elif isinstance(message, Feed) and message.subscription == self._subscription:
            if message.number != self._expected:
                self._subscribe()
                return
            self._expected += 1
            self._show([each for item in message.items for each in self._read(item)])
            self._send(Read(self.stream, self._subscription, self.position))

    def _read(self, item: Item) -> list[Shown]:
        match item:
            case Stable(segment):
                self.position = segment.end
                self._previewed = max(self._previewed, segment.end)
                return [Shown(Kind.INSERT, segment.end, segment.rows)]
            case Preview(segment):
                self._previewed = segment.end
                return [Shown(Kind.TENTATIVE, segment.end, segment.rows)]
            case Undo(boundary):
                self._previewed = self.position
                return [Shown(Kind.UNDO, boundary)]
            case RecDone():
                return [Shown(Kind.REC_DONE, self.position)]
            case Gap(start):
                self.gaps.append((self.position, start))
                self.position = start
        return []

    def _show(self, shown: Sequence[Shown]) -> None:
        self.shown += [(self.process.world.now, each) for each in shown]
