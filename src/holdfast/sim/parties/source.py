"""A source in the simulator: a device that hands readings over until they are logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.protocol.messages import Message, Send
from holdfast.protocol.source import Log, Persist, Source
from holdfast.sim.network import Network
from holdfast.sim.parties.process import Process
from holdfast.tuples import Row

__all__ = ["SourceParty"]

WRITING = 500
"""How long the log takes to write an entry, and again until it has said so."""


class SourceParty:
    """The proxy of a device and its log, which outlives it."""

    def __init__(
        self,
        name: str,
        make: Callable[[Sequence[Log]], Source],
        process: Process,
        network: Network,
    ) -> None:
        self.name = name
        self.process = process
        self.network = network
        self.log: list[Log] = []
        self.refused = 0
        self._make = make
        self._held: deque[tuple[Any, Any]] = deque()
        """What nobody has taken in yet."""
        self._unlogged: deque[tuple[Any, Any]] = deque()
        """What was taken in and is not in the log."""
        self._begin()

    def _begin(self) -> None:
        self.source = self._make(self.log)
        handed, self._unlogged = self._unlogged, deque()
        for key, value in handed:
            self._hand_over(key, value)
        self._take()
        self.process.wake_at(self.source.next_wake, self._wake)

    @property
    def rows(self) -> list[Row]:
        """All that was ever logged."""
        return [row for entry in self.log for row in entry.segment.rows]

    def read(self, key: Any, value: Any) -> None:
        """The device has a reading, whether or not there is somebody to take it."""
        self._held.append((key, value))
        self.process.do(self._take)

    def _take(self) -> None:
        while self._held:
            self._hand_over(*self._held.popleft())

    def _hand_over(self, key: Any, value: Any) -> None:
        before = self.source.refused
        entries = self.source.record(key, value, self.process.now)
        if self.source.refused > before:
            self.refused += 1
            return
        self._unlogged.append((key, value))
        self._persist(entries)

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Message) -> None:
        self._send(self.source.receive(sender, message))
        self.process.wake_at(self.source.next_wake, self._wake)

    def crash(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.start()
        self._begin()

    def _wake(self) -> None:
        self._persist(self.source.wake(self.process.now))
        self.process.wake_at(self.source.next_wake, self._wake)

    def _persist(self, commands: Sequence[Persist]) -> None:
        for command in commands:
            entry = command.entry
            self.process.after(WRITING, lambda entry=entry: self._write(entry))  # type: ignore[misc]

    def _write(self, entry: Log) -> None:
        self.log.append(entry)
        for _ in entry.segment.rows:
            self._unlogged.popleft()
        self.process.after(WRITING, lambda: self._send(self.source.persisted(entry)))

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.network.send(self.name, send.to, send.message)
