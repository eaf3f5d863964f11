"""Liveness of every replica of every upstream, and the states of their streams.

The consistency manager wakes it and hands it the answers. It decides nothing: `switching` does.
(Digest of delay-process-correct, §3.2; failed replicas are probed for ever, §10.1.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import Heartbeat, Progress, Send, Vitals
from holdfast.pipeline.machine.states import State

UNKNOWN = Progress(State.FAILURE, end=0)


class Monitor:
    """Heartbeats to the replicas of each stream, every `period`.

    A replica that leaves more than `missed` beats in a row unanswered has failed. A beat is missed
    when the next one is due, so a crash is known at most `(missed + 2) * period` after it.
    """

    def __init__(self, replicas: Mapping[str, Sequence[str]], *, period: int, missed: int) -> None:
        if period < 1:
            raise InvalidArgumentError(f"monitor: period is {period}; give at least 1 microsecond")
        if missed < 0:
            raise InvalidArgumentError(f"monitor: missed is {missed}; give 0 or more beats")
        for stream, names in replicas.items():
            if not names or len(set(names)) < len(names):
                raise InvalidArgumentError(
                    f"monitor: replicas of {stream!r} are {list(names)}; "
                    "give at least one, each once"
                )
        self.period = period
        self.missed = missed
        self._progress = {
            stream: dict.fromkeys(names, UNKNOWN) for stream, names in replicas.items()
        }
        self._unanswered = {name: 0 for names in replicas.values() for name in names}
        self._next: int | None = None

    @property
    def next_wake(self) -> int:
        """When to wake it: 0, that is at once, before the first time."""
        return 0 if self._next is None else self._next

    def wake(
        self,
        now: int,
        acks: Mapping[str, int],
        read: Callable[[str, str], int] | None = None,
    ) -> list[Send]:
        """The heartbeats that are due. Those to a replica acknowledge the streams it publishes.
        `read`: how far a stream of a replica has been read.

        However long it slept itself, one wake counts one missed beat and sends one.
        """
        if self._next is not None and self._next - self.period <= now < self._next:
            return []
        self._next = now + self.period
        beats = []
        for name, unanswered in self._unanswered.items():
            if unanswered > self.missed:
                self._note(name, {})
            self._unanswered[name] += 1
            published = [stream for stream, known in self._progress.items() if name in known]
            done = {stream: acks[stream] for stream in published if stream in acks}
            places = {} if read is None else {stream: read(stream, name) for stream in published}
            beats.append(Send(name, Heartbeat(done, now, places)))
        return beats

    def take(self, sender: str, vitals: Vitals) -> bool:
        """An answer. True if it changes the state of any stream; a stream of the sender that it
        does not speak of has failed there."""
        if sender not in self._unanswered:
            return False
        self._unanswered[sender] = 0
        return self._note(sender, vitals.streams)

    def forget(self) -> None:
        """Know nothing of anybody until they answer again, and ask at once."""
        for name in self._unanswered:
            self._note(name, {})
        self._next = None

    def states(self, stream: str) -> dict[str, State]:
        """The state of the stream on each of its replicas, in the order given."""
        return {name: seen.state for name, seen in self._progress[stream].items()}

    def ends(self, stream: str) -> dict[str, int]:
        """The stable boundary of the stream on each of its replicas, as last heard."""
        return {name: seen.end for name, seen in self._progress[stream].items()}

    def starts(self, stream: str) -> dict[str, int]:
        """From where on each replica that has not failed keeps the stream, as last heard."""
        seen = self._progress[stream].items()
        return {name: each.start for name, each in seen if each.state is not State.FAILURE}

    def _note(self, name: str, streams: Mapping[str, Progress]) -> bool:
        changed = False
        for stream, replicas in self._progress.items():
            if name not in replicas:
                continue
            before = replicas[name]
            after = streams.get(stream, Progress(State.FAILURE, before.end))
            changed |= after.state is not before.state
            replicas[name] = after
        return changed


def demote(
    states: Mapping[str, State], failing_for: float, limit: float, caught_up: Set[str]
) -> dict[str, State]:
    """The states as a node sees them that has been failing for long: to read a stable replica means
    a long replay, so it counts as correcting until it has said that all is corrected (`caught_up`).
    """
    if failing_for <= limit:
        return dict(states)
    return {
        name: State.STABILIZATION if state is State.STABLE and name not in caught_up else state
        for name, state in states.items()
    }
