"""A failure of fixed length in the simulator, as the founding document makes it: one input of the
first stage is cut off while its source keeps producing, and replays all when the link is back."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Final

from benchmarks.report import Report
from holdfast.pipeline.gates.order import Delays, Variant
from holdfast.pipeline.machine.client import Shown
from holdfast.pipeline.machine.commands import Settings
from holdfast.pipeline.machine.tuples import Kind
from simulator.diagram import rewrite
from simulator.faults import Fault, FaultKind
from simulator.parties.node import Cost
from simulator.scenario import Options, Reading, Scenario
from simulator.simulation import Simulation
from simulator.topologies import draw_topology

__all__ = [
    "ALL",
    "AVAILABLE",
    "Outage",
    "Outcome",
    "Outcomes",
    "claim_masked",
    "judge",
    "run_outage",
    "run_outages",
]

SECOND: Final = 1_000_000
START: Final = 3 * SECOND
"""When the failure begins: by then the gates know what is usual."""
AVAILABLE: Final = 40
"""Rows a second of the two sources that do not fail, where they come every 50 ms."""
ALL: Final = 60
"""The same of all three."""
PATIENCE: Final = 50_000
SETTLED: Final = SECOND
"""Rows before this are not timed: the parties are still finding each other."""
BROKEN: Final = "c"
"""The source that is cut off."""


@dataclass(frozen=True)
class Outage:
    """A setting, in seconds; plain data, so that another process can run it."""

    failure: float
    delay: float
    """D: how long a gate waits for what is missing."""
    failing: Variant = Variant.PROCESS
    correcting: Variant = Variant.PROCESS
    depth: int = 1
    """Stages in the chain."""
    replicas: int = 1
    beside: bool = True
    busy: float = 0.01
    """Which part of the time a stage needs for buckets as they come."""
    size: float = 0.1
    """Of a bucket; boundaries come as often."""
    gap: float = 0.05
    """Between two readings of a source."""

    @property
    def healed(self) -> int:
        """When the failure ends, in microseconds."""
        return START + int(self.failure * SECOND)

    def __str__(self) -> str:
        variants = f"{self.failing.value} & {self.correcting.value}"
        return f"{variants}, D {self.delay:g} s, {self.depth} x {self.replicas}, {self.failure:g} s"


@dataclass(frozen=True)
class Outcome:
    """What the client saw of it."""

    tentative: int
    """Rows that were tentative when they were first shown."""
    again: int
    """Tentative rows that were shown again after an UNDO, which withdraws all that follow."""
    skipped: int
    """Rows of inputs that did not fail, shown only with the corrections."""
    worst: float
    """Seconds from the time of a row to its being shown, at most, of rows that were new."""
    mean: float
    """The same on average."""
    corrected_after: float
    """Seconds from the end of the failure until all was corrected; 0 if there was nothing to."""
    wrong: int
    """Rows that are missing, doubled or not corrected in the end."""


Outcomes = Mapping[Outage, Outcome]


def claim_masked(report: Report, name: str, tentative: Iterable[int]) -> None:
    """That there are no tentative rows at all."""
    report.claim(name, sum(tentative), 0, "none, as published", at_least=False)


def run_outages(outages: Sequence[Outage]) -> Iterator[tuple[Outage, Outcome]]:
    """Run them two at a time; nothing is timed here."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        running = {pool.submit(run_outage, outage): outage for outage in outages}
        for done in as_completed(running):
            yield running[done], done.result()


def run_outage(outage: Outage) -> Outcome:
    scenario = _scenario(outage)
    simulation = Simulation(scenario)
    # As over one connection: nothing is overtaken.
    simulation.network.jitter = 0
    cost = Cost(bucket=int(outage.busy * scenario.size), row=0)
    for node in simulation.nodes.values():
        node.cost = cost
    simulation.world.run(scenario.until)
    ((stream, client),) = simulation.clients.items()
    position = client.client.intake.position
    expected = sum(
        row.stime < position for source in simulation.sources.values() for row in source.rows
    )
    outcome = judge(simulation.shown_to(stream), expected, outage.healed)
    is_stuck = position < scenario.until - 2 * SECOND
    return replace(outcome, wrong=outcome.wrong + is_stuck)


def judge(shown: Sequence[tuple[int, Shown]], expected: int, healed: int) -> Outcome:
    """The outcome of what a client was shown, of which `expected` rows should be stable. Rows have
    their source for a key, and no source has two at a time."""
    seen: set[tuple[int, str]] = set()
    tentative = again = skipped = stable = standing = furthest = 0
    corrected = healed
    delays = []
    for time, each in shown:
        if each.kind is Kind.UNDO:
            standing = 0
        elif each.kind is Kind.REC_DONE:
            corrected = time
        rows = [row for row in each.rows if (row.stime, row.key) not in seen]
        new = [row for row in rows if row.stime >= furthest]
        seen.update((row.stime, row.key) for row in rows)
        delays += [time - row.stime for row in new if row.stime >= SETTLED]
        skipped += sum(row.stime < furthest and row.key != BROKEN for row in rows)
        if each.kind is Kind.TENTATIVE:
            tentative += len(rows)
            again += len(each.rows) - len(rows)
            standing += len(each.rows)
        elif each.kind is Kind.INSERT:
            stable += len(each.rows)
        furthest = max(furthest, each.boundary)
    return Outcome(
        tentative,
        again,
        skipped,
        max(delays) / SECOND,
        fmean(delays) / SECOND,
        (corrected - healed) / SECOND,
        abs(stable - expected) + standing,
    )


def _scenario(outage: Outage) -> Scenario:
    size = int(outage.size * SECOND)
    diagram = draw_topology(f"chain-{outage.depth}", Random(0), size)
    plans = rewrite(diagram)
    replicas = {
        plan.name: tuple(f"{plan.name}/{number}" for number in range(outage.replicas))
        for plan in plans
    }
    delays = Delays(
        outage.delay * SECOND, 0, outage.failing, outage.correcting, min(PATIENCE, size // 2)
    )
    settings = Settings(size=size, delays=delays, beside=outage.beside)
    # Correcting takes as long as the failure where the stage is busy for a third of the time.
    until = outage.healed + int(outage.failure * SECOND) + 10 * SECOND
    return Scenario(
        seed=0,
        options=Options(policy="switch"),
        diagram=diagram,
        plans=plans,
        replicas=replicas,
        settings={plan.name: settings for plan in plans},
        readings=_readings(diagram.sources, int(outage.gap * SECOND), until - 2 * SECOND),
        faults=tuple(
            Fault(FaultKind.CUT, START, outage.healed, (BROKEN, replica))
            for replica in replicas[plans[0].name]
            if outage.failure
        ),
        ahead={},
        save_every=1,
        ordered=False,
        liars={},
        size=size,
        until=until,
    )


def _readings(sources: Sequence[str], gap: int, until: int) -> tuple[Reading, ...]:
    """Each source at its own times."""
    readings = [
        Reading(time, source, source, time // gap)
        for number, source in enumerate(sources)
        for time in range(number * gap // len(sources), until, gap)
    ]
    return tuple(sorted(readings, key=lambda reading: reading.time))
