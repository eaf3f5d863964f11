"""Whether there was a way from the sources to a client that no fault touched.

Used by the oracle of latency. The checks are strict: what a fault touched counts as broken for a
while after it, until everybody has noticed and caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations, product
from typing import Final

from simulator.faults import Fault, FaultKind
from simulator.scenario import Scenario

AFTER_LINK: Final = 700_000
AFTER_PROCESS: Final = 1_500_000
"""So long something counts as broken after its fault has ended."""

IN_PASSING: Final = 100_000
"""Work that a fault has left, and that is done within that time."""

PROCESSES: Final = (
    FaultKind.CRASH,
    FaultKind.REBOOT,
    FaultKind.FREEZE,
    FaultKind.STAGE,
    FaultKind.CLIENT,
    FaultKind.STEP,
    FaultKind.SUSPEND,
)
STANDING: Final = {FaultKind.FREEZE, FaultKind.SUSPEND, FaultKind.STEP}
SEVERING: Final = (FaultKind.CUT, FaultKind.PARTITION)

Span = tuple[int, int]


class Paths:
    """The ways through one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._plans = {
            output.stream: (plan, output) for plan in scenario.plans for output in plan.outputs
        }

    def is_open(self, stream: str, since: int, until: int) -> bool:
        """Whether a client could read something new of the stream all that time."""
        client, span = f"client:{stream}", (since, until)
        return self._process_holds(client, span) and self._reaches(stream, client, span)

    def is_whole(self, names: Iterable[str], since: int, until: int) -> bool:
        """Whether these lived all that time and could talk to each other."""
        span = since, until
        return all(self._process_holds(name, span) for name in names) and all(
            self._link_holds(one, other, span) for one, other in combinations(names, 2)
        )

    def all_open(self, source: str, stream: str, since: int, until: int) -> bool:
        """Whether no fault came near any way from the source to the client of the stream."""
        span, reader = (since, until), f"client:{stream}"
        return self._process_holds(reader, span) and self._all_reach(source, stream, reader, span)

    def _all_reach(self, source: str, stream: str, reader: str, span: Span) -> bool:
        makers = self.scenario.makers[stream]
        if not self.is_whole(makers, *span):
            return False
        if not all(self._link_holds(maker, reader, span) for maker in makers):
            return False
        if stream not in self._plans:
            return True
        plan, _ = self._plans[stream]
        return all(
            self._all_reach(source, name, maker, span)
            for name in plan.inputs
            if self._comes_from(source, name)
            for maker in makers
        )

    def _comes_from(self, source: str, stream: str) -> bool:
        if stream not in self._plans:
            return stream == source
        plan, _ = self._plans[stream]
        return any(self._comes_from(source, name) for name in plan.inputs)

    def always_fed(self, replica: str) -> bool:
        """Whether no fault ever came near any input of a replica; it may have been frozen, or its
        clock set."""
        scenario, always = self.scenario, (0, self.scenario.until)
        kinds = {fault.kind for fault in scenario.faults if replica in fault.targets}
        plan = next(each for each in scenario.plans if replica in scenario.replicas[each.name])
        return kinds <= STANDING and all(
            self._all_reach(source, stream, replica, always)
            for stream in plan.inputs
            for source in scenario.diagram.sources
            if self._comes_from(source, stream)
        )

    def is_cut_off(self, stream: str, reader: str, since: int, until: int) -> bool:
        """Whether nothing can have come from any maker of the stream all that time."""
        return all(
            any(
                fault.kind in SEVERING
                and fault.start <= since
                and fault.end >= until
                and frozenset((maker, reader)) in set(self._pairs(fault))
                for fault in self.scenario.faults
            )
            for maker in self.scenario.makers[stream]
        )

    def depth(self, stream: str) -> int:
        """How many gates are on the longest way to the stream."""
        if stream not in self._plans:
            return 0
        plan, _ = self._plans[stream]
        return 1 + max(self.depth(name) for name in plan.inputs)

    def _reaches(self, stream: str, reader: str, span: Span) -> bool:
        makers = self.scenario.makers[stream]
        open_to = [
            self._link_holds(maker, reader, span) and self._makes(stream, maker, span)
            for maker in makers
        ]
        beside = all(settings.beside for settings in self.scenario.settings.values())
        if beside or stream in self.scenario.diagram.sources:
            return any(open_to)
        # Replicas that take turns are only together always there.
        return len(makers) > 1 and all(open_to)

    def _makes(self, stream: str, maker: str, span: Span) -> bool:
        if not self._process_holds(maker, span):
            return False
        if stream not in self._plans:
            # A source with a standby shows only what both have.
            return self.is_whole(self.scenario.makers[stream], *span)
        _, output = self._plans[stream]
        return all(any(self._reaches(name, maker, span) for name in need) for need in output.needs)

    def _process_holds(self, name: str, span: Span) -> bool:
        return not _overlaps(self._process_troubles.get(name, ()), span)

    def _link_holds(self, one: str, other: str, span: Span) -> bool:
        return not _overlaps(self._link_troubles.get(frozenset((one, other)), ()), span)

    @cached_property
    def _process_troubles(self) -> dict[str, list[Span]]:
        troubles: dict[str, list[Span]] = {}
        for fault in self.scenario.faults:
            if fault.kind in PROCESSES:
                span = fault.start, self._recovered(fault)
                for name in fault.targets:
                    troubles.setdefault(name, []).append(span)
        return troubles

    def _recovered(self, fault: Fault) -> int:
        """When a process is itself again. Who has lost his state needs the others to find it, so
        whatever else goes wrong meanwhile holds it up."""
        end = fault.end + AFTER_PROCESS + self._catching_up(fault)
        if fault.kind in (FaultKind.CRASH, FaultKind.REBOOT):
            for other in sorted(self.scenario.faults, key=lambda each: each.start):
                if other.start < end and other.end > fault.start:
                    end = max(end, other.end + AFTER_PROCESS)
        return end

    @cached_property
    def _link_troubles(self) -> dict[frozenset[str], list[Span]]:
        troubles: dict[frozenset[str], list[Span]] = {}
        for fault in self.scenario.faults:
            if fault.kind not in PROCESSES:
                end = fault.end + AFTER_LINK + self._catching_up(fault)
                for pair in self._pairs(fault):
                    troubles.setdefault(pair, []).append((fault.start, end))
        return troubles

    def _catching_up(self, fault: Fault) -> int:
        """How long a stage takes for what a fault has kept from it: base and fork in turn, while
        more comes in."""
        busy = 2 * self.scenario.cost.bucket / self.scenario.size
        return max(0, int((fault.end - fault.start) * busy / (1 - busy)) - IN_PASSING)

    def _pairs(self, fault: Fault) -> Iterable[frozenset[str]]:
        if fault.kind is not FaultKind.PARTITION:
            return [frozenset(fault.targets)]
        names = {name for names in self.scenario.makers.values() for name in names}
        names |= {f"client:{stream}" for stream in self.scenario.diagram.outputs}
        outside = names - set(fault.targets)
        return [frozenset(pair) for pair in product(fault.targets, outside)]


def _overlaps(troubles: Iterable[Span], span: Span) -> bool:
    return any(start < span[1] and end > span[0] for start, end in troubles)
