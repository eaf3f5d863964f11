"""The client's end of a stream: reads the best replica and shows what the stream says.

What is shown are INSERT and TENTATIVE rows with their ids, UNDO and REC_DONE, and boundaries. Each
UNDO names the boundary before which all stands. Applied in order they leave the stable stream; so
does dropping all but the INSERTs, which is what a client without `tentative` is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.protocol.intake import SwitchIntake
from holdfast.protocol.messages import (
    Feed,
    Item,
    Message,
    Preview,
    RecDone,
    Send,
    Stable,
    Undo,
    Vitals,
)
from holdfast.protocol.monitor import Monitor
from holdfast.tuples import Kind, Row

__all__ = ["Client", "Shown"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client is shown: rows of one piece of the stream, or a word about them."""

    kind: Kind
    boundary: int
    """Of rows: where the piece ends. Of an UNDO: what is before this stands."""
    rows: tuple[Row, ...] = ()


class Client:
    """Reads one stream; `shown` of `receive` is for the application."""

    def __init__(
        self,
        stream: str,
        replicas: Sequence[str],
        *,
        heartbeat: int = 100_000,
        missed: int = 3,
        tentative: bool = True,
    ) -> None:
        self.tentative = tentative
        self.intake = SwitchIntake(stream, replicas, grace=heartbeat * (missed + 2))
        self.monitor = Monitor({stream: replicas}, period=heartbeat, missed=missed)
        self.gaps: list[tuple[int, int]] = []
        """Pieces that no replica keeps any more."""
        self._corrected = True

    @property
    def next_wake(self) -> float:
        return self.monitor.next_wake

    def wake(self, now: int) -> list[Send]:
        if now < self.monitor.next_wake:
            return []
        acks = {self.intake.stream: self.intake.position}
        return [*self.monitor.wake(now, acks), *self._read_on(now)]

    def receive(self, sender: str, message: Message, now: int) -> tuple[list[Shown], list[Send]]:
        stream = self.intake.stream
        if isinstance(message, Vitals):
            changed = self.monitor.take(sender, message)
            progress = message.streams.get(stream)
            sends = self.intake.check(sender, progress, now) if progress else []
            return [], [*sends, *(self._read_on(now) if changed else [])]
        if not isinstance(message, Feed) or message.stream != stream:
            return [], []
        news, sends = self.intake.take(sender, message, now)
        shown = [each for item in news for each in self._show(item)]
        return shown, [*sends, *(self._read_on(now) if sends else [])]

    def _read_on(self, now: int) -> list[Send]:
        stream = self.intake.stream
        states = self.monitor.states(stream)
        gap = self.intake.gap(states)
        sends: list[Send] = []
        if gap is not None:
            self.gaps.append((self.intake.position, gap))
            sends = self.intake.jump(gap)
        return sends + self.intake.read_on(states, self.monitor.ends(stream), now)

    def _show(self, item: Item) -> list[Shown]:
        match item:
            case Stable(segment):
                return [Shown(Kind.INSERT, segment.end, segment.rows)]
            case Preview(segment) if self.tentative:
                self._corrected = False
                return [Shown(Kind.TENTATIVE, segment.end, segment.rows)]
            case Undo(boundary) if self.tentative:
                return [Shown(Kind.UNDO, boundary)]
            case RecDone() if self.tentative and not self._corrected:
                self._corrected = True
                return [Shown(Kind.REC_DONE, self.intake.position)]
            case _:
                return []
