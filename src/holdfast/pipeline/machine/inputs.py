"""Input streams of a replica: subscriptions, and the states of publishers.

Used by `Node`, which decides what to do with what is read. Here is nothing of gates and work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from holdfast.pipeline.machine.messages import Feed, Gap, Item, RecDone, Send, Vitals
from holdfast.pipeline.machine.monitor import Monitor
from holdfast.pipeline.machine.states import State, best_state
from holdfast.pipeline.machine.subscription import Intake


class Inputs:
    """The intakes of a replica, and the monitor of the replicas that they read."""

    def __init__(self, intakes: Mapping[str, Intake], monitor: Monitor) -> None:
        self.intakes = dict(intakes)
        self.monitor = monitor

    # How they are

    def states(self, stream: str) -> dict[str, State]:
        """The state of the stream on each of its replicas."""
        return self.monitor.states(stream)

    def best(self) -> dict[str, State]:
        """How good each stream is."""
        return {stream: intake.best(self.states(stream)) for stream, intake in self.intakes.items()}

    @property
    def are_failing(self) -> bool:
        """Whether some are not as they should be, by what their replicas say."""
        return any(state is not State.STABLE for state in self.best().values())

    @property
    def are_kept(self) -> bool:
        """Whether all can be read on from where they are, now."""
        return all(
            intake.best(states) is not State.FAILURE and intake.gap(states, hasty=True) is None
            for intake, states in self._known()
        )

    @property
    def kept_from(self) -> int:
        """All streams can be read from here on, as far as is known; 0 if nothing is."""
        starts = (self.monitor.starts(stream).values() for stream in self.intakes)
        return max((min(each, default=0) for each in starts), default=0)

    def are_read(self, behind: int, enough: float = math.inf) -> bool:
        """Whether all are read but for so much at the end, as far as somebody is there who says
        where that is, or as far as is `enough`: one that is far ahead of others waits upstream."""
        for intake, states in self._known():
            ends = self.monitor.ends(intake.stream)
            there = {
                name: ends[name] for name, state in states.items() if state is not State.FAILURE
            }
            if not there or intake.position < min(intake.newest(there) - behind, enough):
                return False
        return True

    def _known(self) -> Iterator[tuple[Intake, dict[str, State]]]:
        for stream, intake in self.intakes.items():
            yield intake, self.states(stream)

    # Events

    def wake(self, now: int, safe: int | None) -> list[Send]:
        """The heartbeats that are due; they acknowledge what will not be read again. `safe`: what
        is before it is not needed any more, if that is known."""
        acks = {
            stream: min(safe, intake.needed)
            for stream, intake in self.intakes.items()
            if safe is not None
        }
        return self.monitor.wake(now, acks, self._place_of)

    def _place_of(self, stream: str, replica: str) -> int:
        return self.intakes[stream].place_of(replica)

    def take_feed(self, sender: str, feed: Feed, now: int) -> tuple[list[Item], list[Send], bool]:
        """What of it is news, what to say, and whether to think again about whom to read."""
        intake = self.intakes.get(feed.stream)
        if intake is None:
            return [], [], False
        news, sends = intake.take(sender, feed, now)
        turns = any(isinstance(item, RecDone | Gap) for item in (*news, *feed.items))
        turns = bool(sends) or turns
        return news, [*sends, *intake.confirm(sender)], turns

    def take_vitals(self, sender: str, vitals: Vitals, now: int) -> tuple[list[Send], bool]:
        """What to say, and whether to think again about whom to read."""
        changed = self.monitor.take(sender, vitals)
        sends: list[Send] = []
        for stream, progress in vitals.streams.items():
            if stream in self.intakes:
                sends += self.intakes[stream].check(sender, progress, vitals.sent, now)
        return sends, changed

    def jump(self, boundary: int) -> Iterator[tuple[str, Item]]:
        """Give up what is before the boundary; what is already there of what follows it."""
        for stream, intake in self.intakes.items():
            for item in intake.jump(boundary):
                yield stream, item

    def doubt(self) -> None:
        """What failed may have to be corrected: nobody of a stream that is not stable everywhere
        has said yet that it is done with that."""
        for stream, intake in self.intakes.items():
            if best_state(self.states(stream)) is not State.STABLE:
                intake.caught_up.clear()
