"""A network that delays, loses, repeats and overtakes, and whose links can be cut one way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from holdfast.pipeline.machine.messages import Message
from simulator.standby import TwinMessage
from simulator.world import World

Carried = Message | TwinMessage
"""What is carried between replicated stages; the edge has messages of its own."""

M = TypeVar("M")


@dataclass(slots=True)
class Trouble:
    """What is wrong with one direction of a link now."""

    cuts: int = 0
    loss: float = 0.0
    repeats: float = 0.0
    delay: int = 0


@dataclass
class Network(Generic[M]):
    """Carries messages between named parties. `deliver` is told the sender, receiver, message."""

    world: World
    random: Random
    latency: int
    jitter: int
    deliver: Callable[[str, str, M], None]
    _troubles: dict[tuple[str, str], Trouble] = field(default_factory=dict)

    def trouble(self, sender: str, receiver: str) -> Trouble:
        """The trouble on the way from one to the other, to be changed."""
        return self._troubles.setdefault((sender, receiver), Trouble())

    def send(self, sender: str, receiver: str, message: M) -> None:
        trouble = self._troubles.get((sender, receiver))
        delay = self.latency + int(self.random.random() * self.jitter)
        if trouble is not None:
            if trouble.cuts or (trouble.loss and self.random.random() < trouble.loss):
                return
            if trouble.delay:
                delay += trouble.delay + int(self.random.random() * trouble.delay)
            if trouble.repeats and self.random.random() < trouble.repeats:
                self._carry(sender, receiver, message, delay + self.latency)
        self._carry(sender, receiver, message, delay)

    def _carry(self, sender: str, receiver: str, message: M, delay: int) -> None:
        def arrive() -> None:
            trouble = self._troubles.get((sender, receiver))
            if trouble is None or not trouble.cuts:
                self.deliver(sender, receiver, message)

        self.world.at(self.world.now + delay, arrive)
