"""What came of seeds: of one, small enough to be sent between processes, and of many."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field

from holdfast.pipeline.machine.tuples import Kind
from simulator.scenario import Options, Scenario, draw_scenario
from simulator.simulation import Note, Simulation
from simulator.trial import try_scenario


@dataclass(frozen=True, slots=True)
class Attempt:
    """A scenario run in this process; without `run` if the simulator itself broke."""

    run: Simulation | None
    problems: tuple[str, ...]
    traceback: str = ""


def attempt(scenario: Scenario, note: Note | None = None) -> Attempt:
    """Run it and judge it. An exception of the simulator is a problem like others."""
    try:
        trial = try_scenario(scenario, note)
    except Exception as error:
        return Attempt(None, (_describe(error),), traceback.format_exc())
    return Attempt(trial.run, trial.problems)


def _describe(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    last = traceback.format_exception_only(error)[-1].strip()
    return f"the simulator broke: {last} ({place.filename.rpartition('/')[2]}:{place.lineno})"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one seed."""

    seed: int
    problems: tuple[str, ...] = ()
    tentative: int = 0
    """Pieces that clients were shown before they were final."""
    withdrawn: int = 0
    """How many of these an UNDO took back, for corrections to follow."""
    undos: int = 0
    gaps: int = 0
    """Stretches of a stream that clients will never see final, for no replica keeps them."""
    faults: Counter[str] = field(default_factory=Counter)
    """How many of each kind."""


def run_seed(options: Options, seed: int) -> Result:
    """Draw, run and judge one seed."""
    try:
        scenario = draw_scenario(seed, options)
    except Exception as error:
        return Result(seed, (_describe(error),))
    tried = attempt(scenario)
    faults = Counter(fault.kind.value for fault in scenario.faults)
    if tried.run is None:
        return Result(seed, tried.problems, faults=faults)
    return Result(seed, tried.problems, *count_shown(tried.run), faults=faults)


def count_shown(run: Simulation) -> tuple[int, int, int, int]:
    """Pieces that clients were shown as tentative, those withdrawn, UNDOs and gaps."""
    tentative = withdrawn = undos = gaps = 0
    for client in run.clients.values():
        standing = 0
        gaps += len(client.client.gaps)
        for _, each in client.shown:
            if each.kind is Kind.TENTATIVE:
                tentative, standing = tentative + 1, standing + 1
            elif each.kind is Kind.UNDO:
                withdrawn, standing, undos = withdrawn + standing, 0, undos + 1
    return tentative, withdrawn, undos, gaps


@dataclass(slots=True)
class Tally:
    """What came of all seeds so far."""

    seeds: int = 0
    with_previews: int = 0
    tentative: int = 0
    withdrawn: int = 0
    undos: int = 0
    gaps: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.with_previews += result.tentative > 0
        self.tentative += result.tentative
        self.withdrawn += result.withdrawn
        self.gaps += result.gaps
        self.undos += result.undos
        self.faults += result.faults
        if result.problems:
            self.failures.append(result)
