"""Client's end of a stream: reads the best replica and shows what the stream says.

What is shown are INSERT and TENTATIVE rows with their ids, UNDO and REC_DONE, and boundaries. Each
UNDO names the boundary before which all stands. Applied in order they leave the stable stream; so
does dropping all but the INSERTs, which is what a client without `tentative` is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Item,
    Message,
    Preview,
    RecDone,
    Send,
    Stable,
    Undo,
    Vitals,
)
from holdfast.pipeline.machine.monitor import Monitor
from holdfast.pipeline.machine.subscription import Intake, SwitchIntake
from holdfast.pipeline.machine.tuples import Kind, Row


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
        may_skip: bool = False,
        position: int = 0,
        intake: Intake | None = None,
    ) -> None:
        """`position`: what is before this has been read. `may_skip`: go on without what no replica
        that can be reached keeps any more; else wait for the others. `intake`: how to read it, if
        not from the best replica."""
        self.tentative = tentative
        self.may_skip = may_skip
        self.intake: Intake = intake or SwitchIntake(
            stream, replicas, grace=heartbeat * (missed + 2), position=position
        )
        self.monitor = Monitor({stream: replicas}, period=heartbeat, missed=missed)
        self.gaps: list[tuple[int, int]] = []
        """Pieces that no replica keeps any more."""
        self.done: int | None = None
        """What is before this the application has made safe; None if it takes what it is shown."""
        self._corrected = True

    @property
    def next_wake(self) -> float:
        return self.monitor.next_wake

    def wake(self, now: int) -> tuple[list[Shown], list[Send]]:
        position = self.intake.position
        done = position if self.done is None else min(self.done, position)
        acks = {self.intake.stream: min(done, self.intake.needed)}
        beats = self.monitor.wake(now, acks, lambda _, replica: self.intake.place_of(replica))
        if not beats:
            return [], []
        shown, sends = self._read_on(now)
        return shown, [*beats, *sends]

    def receive(self, sender: str, message: Message, now: int) -> tuple[list[Shown], list[Send]]:
        stream = self.intake.stream
        shown: list[Shown] = []
        sends: list[Send] = []
        look_around = False
        if isinstance(message, Vitals) and stream in message.streams:
            look_around = self.monitor.take(sender, message)
            sends += self.intake.check(sender, message.streams[stream], message.sent, now)
        elif isinstance(message, Feed) and message.stream == stream:
            news, sends = self.intake.take(sender, message, now)
            shown = [each for item in news for each in self._show(item)]
            look_around = bool(sends) or any(isinstance(each, Gap) for each in message.items)
            sends = [*sends, *self.intake.confirm(sender)]
        if look_around:
            more, said = self._read_on(now)
            return [*shown, *more], [*sends, *said]
        return shown, sends

    def _read_on(self, now: int) -> tuple[list[Shown], list[Send]]:
        stream = self.intake.stream
        states = self.monitor.states(stream)
        gap = self.intake.gap(states, hasty=self.may_skip)
        shown: list[Shown] = []
        if gap is not None:
            self.gaps.append((self.intake.position, gap))
            shown = [each for item in self.intake.jump(gap) for each in self._show(item)]
        return shown, self.intake.read_on(states, self.monitor.ends(stream), now)

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
