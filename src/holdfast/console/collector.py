"""Gathers all that the page shows, in the background: requests only read what is here already."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import Any, Final, Self

from holdfast.console.history import History
from holdfast.console.panels import Panel, PanelWatch
from holdfast.console.pollers import (
    ABSENT,
    ENDED,
    FIGURES,
    FROZEN,
    READING,
    STARTING,
    UNKNOWN,
    Condition,
    PartyWatch,
    condition_of_reader,
    pause_for,
)
from holdfast.console.stream_readers import Open, Tails
from holdfast.console.topology_view import leaves, outline_of
from holdfast.pipeline.process.replica_config import security_of
from holdfast.pipeline.topology import VOTING, PartyKind, Topology

TICK: Final = 0.5
MINUTE: Final = 60
KEPT_STREAMS: Final = 3
"""So many of the last streams are read all the time, so that there is something to go back to."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a supervisor knows of a party beyond what it says itself."""

    is_running: bool
    starts: int
    code: int | None = None
    """What it last ended with."""
    is_frozen: bool = False
    cuts: tuple[str, ...] = ()
    """Whom it cannot reach, for we have cut the links."""


class Collector:
    """From `start` until it is closed. `kept`: how the processes are, if we keep them going.
    `clock`: seconds since 1970."""

    def __init__(
        self,
        topology: Topology,
        *,
        routes: Mapping[str, str] | None = None,
        open_: Open | None = None,
        watch: Sequence[str] | None = None,
        panels: Iterable[Panel] = (),
        kept: Callable[[], Mapping[str, Kept]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.topology = topology
        self.outline = outline_of(topology)
        self.clock = clock
        self._routes = routes or {}
        self._parties = topology.parties()
        self._kept = kept
        self._own = {
            sink.stream: f"this console, of {sink.stream}"
            for sink in topology.sinks.values()
            if sink.policy in VOTING
        }
        """The streams that sinks vote on. Nobody can ask a sink, so our own votes are shown."""
        self.history = History([*self._parties, *self._own.values()])
        if watch is None:
            watch = list(dict.fromkeys([*leaves(topology)[:KEPT_STREAMS], *self._own]))
        self.tails = Tails(topology, open_, keep=watch, clock=clock)
        self._conditions: dict[str, Condition] = {}
        self._answered: set[str] = set()
        self._shown: dict[str, Condition] = {}
        self._lock = Lock()
        self._closing = Event()
        self._watches: list[PartyWatch] = []
        self._panels = [PanelWatch(panel, clock) for panel in panels]
        self._thread = Thread(target=self._tick, name="console ticks", daemon=True)
        self.version = 0
        """Grows whenever a fact changes."""
        self.ticks = 0
        """Grows twice a second."""

    def start(self) -> None:
        security = security_of(self.topology)
        pause = pause_for(len(self._parties))
        for name, party in self._parties.items():
            if party.address is not None:
                address = self._routes.get(name, party.address)
                self._watches.append(PartyWatch(name, address, security, self.take, pause=pause))
        self._thread.start()

    def register(self, panel: Panel) -> None:
        """Show one more table."""
        self._panels.append(PanelWatch(panel, self.clock))

    # What comes in

    def take(self, name: str, condition: Condition) -> None:
        """A party has said how it is, or nothing."""
        kept = self._processes()
        with self._lock:
            if condition.state != ABSENT:
                self._answered.add(name)
            self._conditions[name] = condition
            self._look_at(name, kept)

    def look(self) -> None:
        """See what is new of processes and sinks too."""
        kept = self._processes()
        with self._lock:
            for name in self._parties:
                self._look_at(name, kept)
            for stream, name in self._own.items():
                found = self.tails.found(stream)
                if found:
                    self._show(name, condition_of_reader(found))

    def _processes(self) -> Mapping[str, Kept]:
        return {} if self._kept is None else self._kept()

    def _look_at(self, name: str, kept: Mapping[str, Kept]) -> None:
        said = self._conditions.get(name)
        if self._parties[name].kind is PartyKind.SINK:
            said = self._sink(name)
        if name in kept:
            said = self._with_process(name, said, kept[name])
        if said is not None:
            self._show(name, said)

    def _show(self, name: str, said: Condition) -> None:
        before = self._shown.get(name)
        self._shown[name] = said
        if before is None or before.facts != said.facts:
            self.history.change(self.clock(), name, said.facts)
            self.version += 1

    def _sink(self, name: str) -> Condition:
        """As those see it whom it reads: it serves nothing, so nobody can ask it."""
        publishers = self.topology.publishers(self.topology.sinks[name].stream)
        found = [(each, self._conditions.get(each)) for each in publishers]
        links = {
            each: name in condition.callers
            for each, condition in found
            if condition is not None and condition.state != ABSENT
        }
        if any(links.values()):
            return Condition({"state": READING, "links": links})
        return Condition({"state": UNKNOWN, "why": "nobody whom it reads has a link of it"})

    def _with_process(self, name: str, said: Condition | None, kept: Kept) -> Condition | None:
        more: dict[str, Any] = {"starts": kept.starts}
        if kept.cuts:
            more["cuts"] = kept.cuts
        if not kept.is_running:
            self._answered.discard(name)
            return Condition({**more, "state": ENDED, "why": f"ended with {kept.code}"})
        if kept.is_frozen:
            return Condition({**more, "state": FROZEN, "why": "stopped from this page"})
        if said is None or (said.state == ABSENT and name not in self._answered):
            return Condition({**more, "state": STARTING})
        return replace(said, facts={**said.facts, **more})

    def _tick(self) -> None:
        while not self._closing.is_set():
            start = time.monotonic()
            self.look()
            with self._lock:
                self.history.tick(self.clock(), self._shown)
            self.ticks += 1
            self._closing.wait(max(0.05, TICK - (time.monotonic() - start)))

    # What goes out

    def conditions(self, at: float | None = None) -> dict[str, Condition]:
        """How all parties are, or were."""
        if at is not None:
            return self.history.at(at)
        with self._lock:
            return dict(self._shown)

    def batches(self, at: float) -> dict[str, list[float]]:
        """Of each replica, the time of Spark's last batch in each second of the minute before."""
        # Of the second that has just begun nothing may be known yet.
        found = self.history.series("batch_seconds", at - 1, MINUTE)
        return {name: found[name] for name in self._parties if self._is_replica(name)}

    def _is_replica(self, name: str) -> bool:
        return self._parties[name].kind is PartyKind.REPLICA

    def panels(self, at: float | None = None) -> list[dict[str, Any]]:
        """What they say, or said."""
        return [watch.shown if at is None else watch.at(at) for watch in self._panels]

    def stream(
        self, stream: str, end: float, span: float, *, key: str, column: str, after: int = 0
    ) -> dict[str, Any]:
        """What was told of a stream in the `span` seconds before `end`. If no key or column is
        given, of the first."""
        pieces = self.tails.of(stream)
        keys, shape = pieces.keys, pieces.shape
        columns = [] if shape is None else list(shape.values)
        key = key or next(iter(keys), "")
        column = column or next(iter(columns), "")
        return {
            "name": stream,
            "problem": self.tails.problem(stream),
            "keys": keys,
            "key": key,
            "columns": columns,
            "column": column,
            "windowed": shape is not None and shape.is_windowed,
            "number": pieces.number,
            "pieces": pieces.told(end - span, end, key=key, column=column, after=after),
        }

    def close(self) -> None:
        self._closing.set()
        asking: list[PartyWatch | PanelWatch] = [*self._watches, *self._panels]
        for each in asking:
            each.close()
        self.tails.close()
        for each in asking:
            each.join()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def written(condition: Condition) -> dict[str, Any]:
    """As the page gets it; numbers that are not there are left out."""
    figures = {
        name: value
        for name, value in zip(FIGURES, condition.figures, strict=True)
        if not math.isnan(value)
    }
    ballots = {"ballots": condition.ballots} if condition.ballots else {}
    return {**condition.facts, "figures": figures, **ballots}
