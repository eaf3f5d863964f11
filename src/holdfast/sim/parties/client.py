"""A client in the simulator: keeps what it was shown, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.protocol.client import Client, Shown
from holdfast.protocol.messages import Message, Send
from holdfast.sim.network import Network
from holdfast.sim.parties.process import Process

__all__ = ["ClientParty"]


class ClientParty:
    """Reads one stream for as long as the simulation lasts."""

    def __init__(self, name: str, client: Client, process: Process, network: Network) -> None:
        self.name = name
        self.client = client
        self.process = process
        self.network = network
        self.shown: list[tuple[int, Shown]] = []
        self.observe: Callable[[Shown], None] = lambda shown: None
        self.process.wake_at(self.process.now, self._wake)

    @property
    def position(self) -> int:
        """Up to where it has the stable stream."""
        return self.client.intake.position

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """What it was told to do without."""
        return self.client.gaps

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Message) -> None:
        self._do(*self.client.receive(sender, message, self.process.now))

    def _wake(self) -> None:
        self._do(*self.client.wake(self.process.now))

    def _do(self, shown: Sequence[Shown], sends: Sequence[Send]) -> None:
        for each in shown:
            self.shown.append((self.process.world.now, each))
            self.observe(each)
        self._send(sends)

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.network.send(self.name, send.to, send.message)
        self.process.wake_at(self.client.next_wake, self._wake)
