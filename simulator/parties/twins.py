"""A source with a hot standby in the simulator: one device, and two proxies with a log each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.pipeline.machine.messages import (
    Heartbeat,
    Read,
    Send,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.tuples import Row
from simulator.network import Carried, Network
from simulator.parties.process import Process
from simulator.standby import (
    Command,
    Entry,
    Hand,
    Has,
    Persist,
    Propose,
    Show,
    Tell,
    Twin,
    Vow,
)

WRITING: Final = 500
"""How long a log takes to write an entry, and again until it has said so."""


class Device:
    """Numbers its readings, and offers them to both proxies until one of these calls them final."""

    def __init__(self) -> None:
        self.unsettled: deque[tuple[int, Any, Any]] = deque()
        self.proxies: list[TwinParty] = []
        self._read = 0

    @property
    def rows(self) -> list[Row]:
        """All that is final: one log is the beginning of the other."""
        final = max((proxy.final for proxy in self.proxies), key=len)
        return [row for entry in final for row in entry.segment.rows]

    def read(self, key: Any, value: Any, at: int = 0) -> None:
        self._read += 1
        self.unsettled.append((self._read, key, value))
        for proxy in self.proxies:
            proxy.take()

    def settle(self, number: int) -> None:
        """All up to this one are final."""
        while self.unsettled and self.unsettled[0][0] <= number:
            self.unsettled.popleft()


class TwinParty:
    """One of the two proxies of a device; its log, and the epoch it wrote down, outlive it."""

    def __init__(
        self,
        name: str,
        other: str,
        device: Device,
        make: Callable[[Sequence[Entry], int, int], Twin],
        make_line: Callable[[], Line],
        process: Process,
        network: Network,
    ) -> None:
        """`make(log, epoch, now)` gives the twin of the protocol, at the start and after a crash;
        `make_line` what it publishes to readers."""
        self.name = name
        self.other = other
        self.device = device
        self.process = process
        self.network = network
        self.log: list[Entry] = []
        self.epoch = 0
        self.observe: Callable[[], None] = lambda: None
        self._make = make
        self._make_line = make_line
        device.proxies.append(self)
        self._begin()

    def _begin(self) -> None:
        self.twin = self._make(self.log, self.epoch, self.process.now)
        self.line = self._make_line()
        for entry in self.final:
            self.line.publish(entry.segment)
        self._wake()

    @property
    def final(self) -> list[Entry]:
        """What of its log is final, as far as it knows."""
        return self.log[: self.twin.shown]

    def take(self) -> None:
        """The device has something to offer."""
        self.process.do(self._take)

    def _take(self) -> None:
        for number, key, value in tuple(self.device.unsettled):
            self._do(self.twin.offer(number, key, value, self.process.now))
        self.device.settle(self.twin.settled)

    def deliver(self, sender: str, message: Carried) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Carried) -> None:
        match message:
            case Propose() | Has() | Hand():
                self._do(self.twin.receive(message, self.process.now))
            case Subscribe():
                self._send(self.line.subscribe(sender, message))
            case Unsubscribe():
                self.line.unsubscribe(sender, message)
            case Read():
                self._send(self.line.read(sender, message))
            case Heartbeat():
                self._send([self._answer(sender, message)])
                self._send(self.line.confirm(sender, message.read.get(self.line.stream, 0)))

    def _answer(self, reader: str, heartbeat: Heartbeat) -> Send:
        line = self.line
        if line.stream in heartbeat.acks:
            line.acknowledge(reader, heartbeat.acks[line.stream])
        state = self.twin.state(self.process.now)
        return Send(reader, Vitals({line.stream: line.progress(reader, state)}, heartbeat.sent))

    def crash(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.start()
        self._begin()

    def _wake(self) -> None:
        self._take()
        self._do(self.twin.wake(self.process.now))

    def _do(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._carry_out(command)
        if commands:
            self.observe()
        self.process.wake_at(self.twin.next_wake, self._wake)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Tell(message):
                self.network.send(self.name, self.other, message)
            case Show(segment):
                self._send(self.line.publish(segment))
            case Persist():
                self.process.after(WRITING, lambda: self._write(command))
            case Vow():
                self.process.after(WRITING, lambda: self._write_vow(command))

    def _write(self, command: Persist) -> None:
        index, entry = command.index, command.entry
        self.log[index:] = [entry]
        self._after_writing(lambda: self.twin.persisted(index, entry, self.process.now))

    def _write_vow(self, command: Vow) -> None:
        self.epoch = command.epoch
        self._after_writing(lambda: self.twin.vowed(command.epoch, self.process.now))

    def _after_writing(self, say: Callable[[], list[Command]]) -> None:
        self.process.after(WRITING, lambda: self._do(say()))

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.network.send(self.name, send.to, send.message)
