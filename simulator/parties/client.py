"""A client in the simulator: keeps what it was shown, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.pipeline.machine.client import Client, Shown
from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.tuples import Kind
from simulator.network import Network
from simulator.parties.process import Process


class ClientParty:
    """Reads one stream; the final rows that it was shown outlive it."""

    def __init__(
        self, name: str, make: Callable[[int], Client], process: Process, network: Network
    ) -> None:
        """`make(position)` gives the client of the protocol, at the start and after a crash."""
        self.name = name
        self.process = process
        self.network = network
        self.shown: list[tuple[int, Shown]] = []
        self.observe: Callable[[Shown], None] = lambda shown: None
        self._make = make
        self._given_up: list[tuple[int, int]] = []
        self._begin(0)

    def _begin(self, position: int) -> None:
        self.client = self._make(position)
        self.process.wake_at(self.process.now, self._wake)

    @property
    def position(self) -> int:
        """Up to where it has the stable stream."""
        return self.client.intake.position

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """What it was told to do without."""
        return [*self._given_up, *self.client.gaps]

    def crash(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        """Go on after the final rows; previews that were shown are gone."""
        self.process.start()
        self._given_up += self.client.gaps
        for kind in (Kind.UNDO, Kind.REC_DONE):
            self._show(Shown(kind, self._stands))
        self._begin(self.position)

    @property
    def _stands(self) -> int:
        final = (each.boundary for _, each in reversed(self.shown) if each.kind is Kind.INSERT)
        return next(final, 0)

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Message) -> None:
        self._do(*self.client.receive(sender, message, self.process.now))

    def _wake(self) -> None:
        self._do(*self.client.wake(self.process.now))

    def _do(self, shown: Sequence[Shown], sends: Sequence[Send]) -> None:
        for each in shown:
            self._show(each)
        self._send(sends)

    def _show(self, shown: Shown) -> None:
        self.shown.append((self.process.world.now, shown))
        self.observe(shown)

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.network.send(self.name, send.to, send.message)
        self.process.wake_at(self.client.next_wake, self._wake)
