"""What must hold after every run of the edge, by recalculation from the events that were sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from holdfast.edge.machine import Query, Window
from holdfast.edge.machine.queries import Paned
from simulator.edge.scenario import EMITTING
from simulator.edge.simulation import Simulation

SETTLED: Final = EMITTING + 700_000
"""By the end all windows up to then have come out."""
TOGETHER: Final = 40
"""As many events leave a buffer at once, on both sides of the edge of a pane perhaps."""
SLACK: Final = 200_000
"""That the clock of a sensor may be wrong by after the root was asked."""
AT_THE_END: Final = 60
"""What may be held when all is over."""


def check(run: Simulation) -> list[str]:
    """All that is wrong with a run; nothing if it is right."""
    problems: list[str] = []
    for _, query in run.scenario.queries:
        found = [window for _, window in run.windows if window.query == query.id]
        problems += _check_order(run, query, found)
        problems += _check_answers(run, query, found)
    problems += _check_taken(run)
    problems += _check_losses(run)
    problems += _check_memory(run)
    problems += _check_times(run)
    problems += _check_takeovers(run)
    problems += _check_together(run)
    return problems


def _settled(run: Simulation) -> int:
    """By the end all windows up to then have come out: those of all events, if no sensor is left
    that would let time go on."""
    if any(group.present for group in run.root.groups.values()):
        return run.scenario.root_begins + SETTLED
    return max((row[0] for rows in run.events.values() for row in rows.values()), default=0)


def _check_order(run: Simulation, query: Query, found: list[Window]) -> Iterator[str]:
    """Every window once, in order, none left out, and all of them in the end."""
    starts = [window.start for window in found]
    if not starts:
        yield f"query {query.id}: no window at all"
        return
    expected = list(range(starts[0], starts[-1] + 1, query.slide))
    if starts != expected:
        yield f"query {query.id}: windows start at {starts[:40]}"
    if found[-1].end + query.slide < _settled(run):
        yield f"query {query.id}: stuck after {found[-1].end / 1e6:.3f} s"


def _check_answers(run: Simulation, query: Query, found: list[Window]) -> Iterator[str]:
    guarantee, lossless = run.scenario.options.guarantee, run.scenario.is_lossless
    truth = Truth(run, query)
    absences = run.scenario.absences
    # Only a child that dies can take the last words of a sensor with it.
    all_heard = absences and all(f.targets[0] in run.sensors for f in run.scenario.faults)
    for window in found:
        name = f"query {query.id}, window {window.start} to {window.end}"
        right = truth.answer(window)
        is_away = any(start < window.end and window.start < end for start, end in absences)
        if guarantee == "exactly-once":
            if (window.complete or all_heard) and not _same(window.answer, right):
                yield f"{name}: {window.answer!r} instead of {right!r}"
            if lossless and not (window.complete or is_away) and query.id != "later":
                yield f"{name}: not complete ({window.missing} missing), though nothing was lost"
        if query.aggregate != "count":
            continue
        told, true = window.answer or 0, right or 0
        if guarantee != "at-least-once" and told > true:
            yield f"{name}: {told} events, there are {true}"
        if guarantee == "at-least-once" and told < true and window.complete:
            yield f"{name}: {told} events, there are {true}"
        is_known = window.complete or not is_away or all_heard
        if told + window.missing < true and query.id != "later" and is_known:
            yield f"{name}: {told} events and {window.missing} missing, there are {true}"


def _check_taken(run: Simulation) -> Iterator[str]:
    """What a sensor took was sent; events that are numbered twice would be seen here."""
    for name, party in run.sensors.items():
        sent = sum(len(each) for slot, each in run.events.items() if slot[2] == name)
        drops = party.emission.options.on_full == "drop"
        if sent > party.sensor.taken or (sent < party.sensor.taken and not drops):
            yield f"sensor {name}: took {party.sensor.taken} events and sent {sent}"


def _check_losses(run: Simulation) -> Iterator[str]:
    """What is not counted is reported as lost, also when a pane was taken from an owner who had
    what its successor has not; and no more than what left a buffer together with it."""
    windows = [window for _, window in run.windows if window.query == "count"]
    lost = sum(window.lost for window in windows)
    if run.scenario.is_lossless and run.scenario.options.guarantee != "at-most-once":
        if lost:
            yield f"{lost} events reported as lost, though nothing was lost"
        return
    if run.scenario.options.family != "overflow":
        return
    if run.scenario.options.guarantee != "exactly-once":
        return
    told = sum(window.answer or 0 for window in windows)
    taken = sum(party.sensor.taken for party in run.sensors.values())
    if not taken <= told + lost <= taken + TOGETHER * len(run.sensors):
        yield f"{told} events counted and {lost} lost of {taken}"


def _check_memory(run: Simulation) -> Iterator[str]:
    for child in run.children:
        if child.place is None:
            yield f"child {child.name} has no place"
        elif child.slots.panes > AT_THE_END * len(run.scenario.queries) or len(child.outbox) > 20:
            yield f"child {child.name} holds {child.slots.panes} panes, {len(child.outbox)} closed"
    for group in run.root.groups.values():
        if len(group.merge) > AT_THE_END:
            yield f"the root holds {len(group.merge)} panes of {group.name}"
    for name, party in run.sensors.items():
        most = party.emission.options.capacity * len(party.sensor.owners)
        if party.sensor.buffered > most:
            yield f"sensor {name} holds {party.sensor.buffered} events"


def _check_times(run: Simulation) -> Iterator[str]:
    """No event is refused for a wrong clock, and no window is of a time that has not come."""
    for name, party in run.sensors.items():
        sensor = party.sensor
        if party.emission.is_orderly and sensor.late + sensor.early:
            yield f"sensor {name}: refused {sensor.late} events as late, {sensor.early} as early"
    ahead = sum(f.amount for f in run.scenario.faults if f.targets[0] == "root" and f.amount > 0)
    if run.scenario.options.family == "clocks":
        ahead += run.scenario.root_begins
        for at, window in run.windows:
            if window.end > at + ahead + SLACK:
                yield f"window {window.start} to {window.end} came at {at}"
                return


def _check_takeovers(run: Simulation) -> Iterator[str]:
    """A link is no reason to fight over partitions. Where nobody can tell that both live it is done
    ever more rarely."""
    takeovers = sum(child.tenure.takeovers for child in run.children if child.place)
    partitions = sum(len(group.homes) for group in run.root.groups.values())
    is_deaf = any("root" in fault.targets for fault in run.scenario.faults)
    if run.scenario.options.family == "duels" and takeovers > partitions * (3 if is_deaf else 1):
        yield f"{takeovers} take-overs of {partitions} partitions, though nobody died"


def _check_together(run: Simulation) -> Iterator[str]:
    """Long after all faults nobody who lives is held for dead."""
    living = {child.name for child in run.children}
    for child in run.children:
        dead = living.intersection(child.tenure.down) if child.place else ()
        for other in sorted(dead):
            yield f"child {child.name} holds {other} for dead"


class Truth:
    """The right answers of a query, to the bit: by slot in the order of offsets, then by sensor,
    partition, group and pane."""

    def __init__(self, run: Simulation, query: Query) -> None:
        self._paned = Paned(query)
        self._panes: dict[int, dict[int, dict[int, dict[str, Any]]]] = {}
        for (group, partition, sensor), events in run.events.items():
            by_pane: dict[int, list[tuple[int, float, Any]]] = {}
            for offset in sorted(events):
                row = events[offset]
                by_pane.setdefault(row[0] // self._paned.length, []).append(row)
            for index, rows in by_pane.items():
                values = np.array([value for _, value, _ in rows])
                keys = np.array([key for *_, key in rows], dtype=object)
                partial = self._paned.add(None, values, keys)
                groups = self._panes.setdefault(index * self._paned.length, {})
                groups.setdefault(group, {}).setdefault(partition, {})[sensor] = partial

    def answer(self, window: Window) -> Any:
        paned, whole = self._paned, None
        for pane in range(window.start, window.end, paned.length):
            for _, partitions in sorted(self._panes.get(pane, {}).items()):
                of_group = None
                for _, sensors in sorted(partitions.items()):
                    of_partition = None
                    for _, partial in sorted(sensors.items()):
                        of_partition = paned.combine(of_partition, partial)
                    of_group = paned.combine(of_group, of_partition)
                whole = paned.combine(whole, of_group)
        return paned.answer(whole)


def _same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other) if not isinstance(one, dict) else one == other
