"""Views sent to the page: present or past state, whole or as changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from holdfast.console.collector import Collector, written
from holdfast.console.pollers import Condition

FIGURES_EVERY: Final = 2
"""Ticks between two times that numbers are sent, if nothing else is new."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the streams somebody looks at. `span`: seconds."""

    stream: str
    key: str = ""
    column: str = ""
    span: float = 120.0


def past_view(collector: Collector, choice: Choice, at: float) -> dict[str, Any]:
    """All as it was at a time."""
    return {
        "at": round(at * 1000),
        "full": True,
        "parties": {name: written(found) for name, found in collector.conditions(at).items()},
        "stream": collector.stream(
            choice.stream, at, choice.span, key=choice.key, column=choice.column
        ),
        "batches": collector.batches(at),
        "panels": collector.panels(at),
    }


class LiveView:
    """What one page has been sent, and what it is to be sent next."""

    def __init__(self, collector: Collector, choice: Choice) -> None:
        self._collector = collector
        self._choice = choice
        self._parties: dict[str, Condition] = {}
        self._seen: tuple[int, int, int] | None = None
        self._panels: list[dict[str, Any]] = []

    def next(self) -> bytes | None:
        """The next message, as JSON; None if there is nothing new."""
        collector, choice = self._collector, self._choice
        pieces = collector.tails.of(choice.stream)
        seen = (collector.version, collector.ticks // FIGURES_EVERY, pieces.number)
        is_first = self._seen is None
        if seen == self._seen:
            return None
        after = 0 if self._seen is None else self._seen[2]
        self._seen = seen
        now = collector.clock()
        message: dict[str, Any] = {"at": round(now * 1000), "full": is_first}
        if is_first:
            message["batches"] = collector.batches(now)
        conditions = collector.conditions()
        message["parties"] = {
            name: written(found)
            for name, found in conditions.items()
            if self._parties.get(name) != found
        }
        self._parties = conditions
        stream = collector.stream(
            choice.stream, now, choice.span, key=choice.key, column=choice.column, after=after
        )
        # The first that there was stays chosen when others come.
        self._choice = replace(choice, key=stream["key"], column=stream["column"])
        message["stream"] = stream
        panels = collector.panels()
        if panels != self._panels:
            self._panels = message["panels"] = panels
        return msgspec.json.encode(message)
