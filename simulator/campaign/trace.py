"""What happened in a run, event by event, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.errors import HoldfastError
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind

PLAINLY: Final = {
    "fork": "forks: previews begin",
    "drop": "drops its fork: previews end",
    "install": "takes over the state of a peer",
    "copystate": "gives a peer a copy of its state",
    "restart": "gives up what is missing: begins anew after it, empty",
    "STABLE": "STABLE: all it publishes is final",
    "UP_FAILURE": "UP_FAILURE: input is missing, what is new is tentative",
    "STABILIZATION": "STABILIZATION: processes what it missed",
    "FAILURE": "FAILURE: silent until it has a state again",
}


class Event(NamedTuple):
    time: int
    who: str
    what: str

    @property
    def word(self) -> str:
        """The first word of what is said."""
        return self.what.partition(" ")[0].rstrip(":")

    @property
    def is_fault(self) -> bool:
        return self.what.endswith((" begins", " ends"))

    def __str__(self) -> str:
        return f"{self.time / 1e6:9.6f}  {self.who}  {self.what}"


class Trace:
    """Keeps all that a simulation notes."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def note(self, time: int, who: str, what: str) -> None:
        self.events.append(Event(time, who, PLAINLY.get(what, what)))


def shorten(events: Iterable[Event]) -> Iterator[Event]:
    """Only what is news: no bucket after bucket, no first steps, nothing twice in a row.

    Of what a client is shown, each kind is told once until all is corrected.
    """
    seen: dict[str, set[str]] = {}
    said: dict[tuple[str, bool], str] = {}
    begun = set()
    for event in events:
        who, what, word = event.who, event.what, event.word
        if event.is_fault:
            yield event
        elif word in Kind.__members__:
            words = seen.setdefault(who, {Kind.INSERT.name})
            if word not in words:
                yield event
            words.add(word)
            if word == Kind.REC_DONE.name:
                words.clear()
        elif " from 0.0 s on" in what and (who, what) not in begun:
            begun.add((who, what))
        elif " processes buckets " not in what:
            is_state = word in State.__members__
            before = said.get((who, is_state), PLAINLY["STABLE"])
            said[who, is_state] = what
            if what != before:
                yield event


def write_trace(events: Iterable[Event], path: Path) -> None:
    """All events, one a line."""
    try:
        path.write_text("".join(f"{event}\n" for event in events))
    except OSError as error:
        raise HoldfastError(
            f"{path}: cannot be written ({error.strerror}); give another file"
        ) from error
