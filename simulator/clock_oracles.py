"""What must hold of sources whatever is done to clocks: all that was taken in is published soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.runtime.adjusted_clock import SLOWER
from simulator.faults import FaultKind
from simulator.parties.source import WRITING, SourceParty
from simulator.scenario import Scenario
from simulator.simulation import Simulation

SLACK: Final = 1_000
"""What is lost in rounding while a clock is slow."""
LATEST: Final = 200_000
"""How much earlier than it comes a reading may say that it is, and what a process needs."""
STANDING: Final = (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.SUSPEND)


def check_sources(run: Simulation) -> Iterator[str]:
    """All that is wrong with what sources take in and what they say of themselves."""
    for party in _parties(run):
        if party.name not in run.scenario.retentions:
            yield from _check_soon(run.scenario, party)
            yield from _check_all(run.scenario, party)
            yield from _check_told(run.scenario.size, party)


def are_apart(run: Simulation) -> bool:
    """Whether previews need not be corrected by the end: one source is far ahead of another, or
    one is later than it used to be, for it is silent or was suspended while it waited for the
    machine's clock. A gate takes 64 buckets to learn that."""
    is_silent = any(party.is_silent for party in _parties(run))
    is_set = run.scenario.options.faults == "clocks"
    return is_silent or apart(run) > (3 * run.scenario.size if is_set else run.scenario.until // 4)


def apart(run: Simulation) -> int:
    """How far the boundaries of sources are apart in the end."""
    ends = [party.source.line.end for party in _parties(run)]
    return max(ends) - min(ends) if ends else 0


def _parties(run: Simulation) -> list[SourceParty]:
    return [party for party in run.proxies.values() if isinstance(party, SourceParty)]


def _check_soon(scenario: Scenario, party: SourceParty) -> Iterator[str]:
    """What is taken in is logged within a bucket of real time, a ninth more where the clock was set
    back."""
    if party.name in scenario.event_clocks:
        return
    allowed = scenario.size + scenario.size // (SLOWER - 1) + WRITING + SLACK
    standing = [
        (fault.start, fault.end)
        for fault in scenario.faults
        if fault.kind in STANDING and party.name in fault.targets
    ]
    end = scenario.until if party.process.is_up else 0
    waiting = [(each.time, end) for each in party.unlogged]
    for taken, logged in [*party.delays, *waiting]:
        if logged - taken > allowed and not any(
            start <= logged and taken <= stop for start, stop in standing
        ):
            yield (
                f"source {party.name}: took a row in at {taken / 1e6:.3f} s and published it "
                f"{(logged - taken) / 1e6:.3f} s later"
            )
            return


def _check_all(scenario: Scenario, party: SourceParty) -> Iterator[str]:
    """Where readings say their own times: none is left when silence has lasted, and none late but
    where the machine's clock is all that a source has."""
    times = scenario.event_clocks.get(party.name)
    if times is None:
        return
    published = scenario.until - times.lateness - int(times.idle) - 2 * times.size - LATEST
    left = [each for each in party.unlogged if each.time < published]
    if left:
        yield f"source {party.name}: {len(left)} rows were never published"
    if party.late and not (party.has_guessed and scenario.has_wild_clocks):
        yield f"source {party.name}: {party.late} rows were late, though they came in time"


def _check_told(size: int, party: SourceParty) -> Iterator[str]:
    """The lag is that of the machine's clock, and a stream that is ahead of it is told of."""
    for told in party.told:
        if told.lag != told.wall - told.end:
            yield f"source {party.name}, at {told.time / 1e6:.3f} s: a lag of {told.lag}"
            return
        if told.end - told.wall > size and told.ahead < told.end - told.wall - size:
            yield f"source {party.name}, at {told.time / 1e6:.3f} s: ahead, and nobody knows"
            return
