"""Event loop of a node: one thread, sockets and a clock around its state machine.

It carries messages to the machine and what the machine says to the sockets, wakes it in time, and
answers questions of people. It decides nothing.
"""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.edge.machine.heartbeats import beat_of
from holdfast.edge.machine.messages import Message, Payload, Send
from holdfast.edge.process.frames import Answer, Ask, Carried
from holdfast.edge.process.hub import Hub
from holdfast.errors import HoldfastError, NodeEndedError
from holdfast.runtime.clock import Clock

__all__ = ["SUPERVISOR", "Clock", "Machine", "Runner", "asked_to_end", "memory", "to_json"]

SUPERVISOR: Final = "HOLDFAST_SUPERVISOR"
"""In the environment: the process that keeps this one going, and that it does not outlive."""
LONGEST: Final = 0.2
"""Seconds between two looks at whether to end."""

logger = logging.getLogger("holdfast.edge")


class Machine(Protocol):
    def receive(self, sender: str, message: Message, now: int) -> list[Send]: ...

    def wake(self, now: int) -> list[Send]: ...

    def due(self, now: int) -> int | None: ...


class Runner:
    """`answers`: what people may ask, by its name."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        clock: Callable[[], int],
        answers: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self.name = name
        self.machine = machine
        self.clock = clock
        self.hub: Hub
        self._answers = answers or {}
        self._busy = 0.0
        self._polled = 0.0

    def received(self, sender: str, message: Carried) -> None:
        """For the hub."""
        if isinstance(message, Ask):
            self.hub.send(sender, self._answer(message))
        elif not isinstance(message, Answer):
            self.hub.learn(getattr(message, "addresses", {}))
            self.carry(self.machine.receive(sender, message, self.clock()))

    def carry(self, sends: Iterable[Send]) -> None:
        for send in sends:
            message = send.message
            if isinstance(message, Payload) and self.hub.is_busy(send.to):
                message = beat_of(message, self.clock())
            self.hub.send(send.to, message)

    def turn(self, longest: float = LONGEST) -> None:
        """Deal with what there is, or wait until there is something."""
        now = self.clock()
        due = self.machine.due(now)
        if due is not None:
            longest = min(longest, max(0.0, (due - now) / 1e6))
        self.hub.poll(longest)
        now = self.clock()
        # What has become due by what came meanwhile is so at the next turn, at once.
        if due is not None and due <= now:
            self.carry(self.machine.wake(now))

    def _answer(self, ask: Ask) -> Answer:
        answer = self._answers.get(ask.what)
        if answer is None:
            known = ", ".join(sorted(self._answers))
            return Answer(ask.number, error=f"{self.name}: cannot tell {ask.what!r}; ask {known}")
        try:
            body = json.loads(ask.body) if ask.body else None
            return Answer(ask.number, to_json(answer(body)).encode())
        except HoldfastError as error:
            return Answer(ask.number, error=str(error))
        except Exception as error:
            # Whatever it is that was asked, this node goes on.
            logger.warning("%s: cannot answer %r: %r", self.name, ask.what, error)
            return Answer(ask.number, error=f"{self.name}: cannot answer {ask.what!r}: {error!r}")

    def figures(self) -> dict[str, Any]:
        """What every node can say of itself."""
        return {
            "node": self.name,
            "pid": os.getpid(),
            "memory": memory(),
            "cpu": time.process_time(),
            "peers": self.hub.peers,
            "network": dict(self.hub.counts),
            "bytes": dict(self.hub.bytes_by_kind),
        }


def memory() -> int:
    """Bytes of this process that are in memory now, or the most that ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def to_json(value: Any) -> str:
    """Strict JSON: infinities and NaN, which it does not have as numbers, are strings."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_plain, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(float(value))
    if isinstance(value, dict):
        return {_finite(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _plain(value: Any) -> Any:
    """For JSON: NumPy's numbers, and bytes."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no plain data")


class Ending:
    """Whether the process is to end."""

    def __init__(self) -> None:
        self.asked = False
        self._parent = os.environ.get(SUPERVISOR)
        self._looked = 0.0

    def __call__(self) -> bool:
        now = time.monotonic()
        if self._parent is not None and now - self._looked > LONGEST:
            self._looked = now
            if str(os.getppid()) != self._parent:
                raise NodeEndedError("the supervisor is gone; start that again")
        return self.asked


@contextmanager
def asked_to_end() -> Iterator[Ending]:
    """True once SIGTERM or Ctrl-C has come."""
    ending = Ending()

    def ask(*_: object) -> None:
        ending.asked = True

    before = {each: signal.signal(each, ask) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
