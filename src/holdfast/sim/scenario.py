"""What one seed decides: pipeline, replicas, settings, workload, faults and liars.

Each of these has a stream of randomness of its own, so that leaving out a fault changes nothing
else about the run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.diagram import Diagram, StagePlan, retention, rewrite
from holdfast.protocol.gates.order import Delays, Variant
from holdfast.protocol.line import Retention
from holdfast.protocol.node import Settings
from holdfast.sim.faults import Breakable, Fault, FaultKind, draw_faults
from holdfast.sim.liars import Lie, LieKind, draw_liars
from holdfast.sim.parties.node import Cost
from holdfast.sim.topologies import draw_topology

__all__ = ["FAULTS", "POLICIES", "Options", "Reading", "Scenario", "draw_scenario"]

SIZE: Final = 100_000
HEARTBEAT: Final = 100_000
MISSED: Final = 2
HEADROOM: Final = 100_000
PATIENCE: Final = 50_000
FIRST_FAULT: Final = 500_000
HEALED: Final = 4_500_000
SOURCES_STOP: Final = 5_300_000
END: Final = 6_800_000
CORRECTED: Final = 2_000_000
"""With bounded memory: for how long after a failure previews are still corrected."""
MOST_KEPT: Final = 1_500_000
"""With bounded memory and a stage that does not converge: what is kept."""

POLICIES: Final = ("switch", "order", "vote", "vote-latest", "sample", "first", "latest")
FAULTS: Final = ("all", "none", "short", "cuts", "crashes", "frequent", "long")

EXACTLY_ONCE: Final = ("chain-2", "chain-3", "window", "diamond")
COMPARING: Final = {
    "vote": EXACTLY_ONCE,
    "first": EXACTLY_ONCE,
    "vote-latest": ("chain-2",),
    "sample": ("chain-2",),
    "latest": ("chain-2",),
}
"""Policies that compare the replicas of a first stage, and topologies with others behind it that
can be checked: where buckets may be missing, those without state."""
BYZANTINE: Final = ("vote", "vote-latest", "sample")
FAULTY: Final = 1
"""How many replicas these policies outvote."""

ALONE: Final[tuple[LieKind, ...]] = ("alone", "alone", "forged")
TOGETHER: Final[tuple[LieKind, ...]] = ("together", "glitch")

LINKS: Final = (FaultKind.CUT, FaultKind.ONE_WAY, FaultKind.PARTITION, FaultKind.FLAP)


@dataclass(frozen=True, slots=True)
class Options:
    """What is not left to the seed."""

    topology: str = "any"
    policy: str = "switch"
    faults: str = "all"

    def __post_init__(self) -> None:
        for name, given, known in (
            ("policy", self.policy, POLICIES),
            ("faults", self.faults, FAULTS),
        ):
            if given not in known:
                raise InvalidArgumentError(f"{name}: is {given!r}; give one of {', '.join(known)}")
        fitting = ("any", *COMPARING.get(self.policy, (self.topology,)))
        if self.topology not in fitting:
            raise InvalidArgumentError(
                f"topology: is {self.topology!r} with policy {self.policy!r}, which compares the "
                f"replicas of a first stage; give one of {', '.join(fitting)}"
            )


@dataclass(frozen=True, slots=True)
class Reading:
    time: int
    source: str
    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that happens to the system from outside."""

    seed: int
    options: Options
    diagram: Diagram
    plans: tuple[StagePlan, ...]
    replicas: Mapping[str, tuple[str, ...]]
    """The names of the replicas of each stage."""
    settings: Mapping[str, Settings]
    readings: tuple[Reading, ...]
    faults: tuple[Fault, ...]
    ahead: Mapping[str, int]
    """How far clocks are ahead."""
    save_every: int
    ordered: bool
    """Whether sources publish a bucket at the first reading after it."""
    liars: Mapping[str, Lie]
    """Replicas that lie."""
    cost: Cost = field(default_factory=Cost)
    """How long stages take."""
    retentions: Mapping[str, Retention] = field(default_factory=dict)
    """What is kept of streams that are not kept until all have read them."""
    size: int = SIZE
    """Of a bucket."""
    until: int = END
    """When all is over."""

    def with_faults(self, faults: Collection[Fault]) -> Scenario:
        """The same with only these faults."""
        return replace(self, faults=tuple(faults))

    @property
    def makers(self) -> dict[str, tuple[str, ...]]:
        """Who publishes each stream."""
        made: dict[str, tuple[str, ...]] = {name: (name,) for name in self.diagram.sources}
        for plan in self.plans:
            for output in plan.outputs:
                made[output.stream] = self.replicas[plan.name]
        return made


def draw_scenario(seed: int, options: Options) -> Scenario:
    """The scenario of a seed."""

    def draws(what: str) -> Random:
        return Random(f"{seed}/{what}")

    topology = options.topology
    if topology == "any" and options.policy in COMPARING:
        topology = draws("which").choice(COMPARING[options.policy])
    diagram = draw_topology(topology, draws("topology"), SIZE)
    plans = rewrite(diagram)
    replicas = _draw_replicas(draws("replicas"), plans, options.policy)
    settings = _draw_settings(draws("settings"), plans, options)
    liars: dict[str, Lie] = {}
    if options.policy in BYZANTINE:
        kinds = (*ALONE, *TOGETHER) if options.policy == "vote" else ALONE
        liars = draw_liars(draws("liars"), replicas["s1"], FAULTY, kinds)
    retentions: dict[str, Retention] = {}
    if options.faults == "long":
        may_skip = options.policy == "switch"
        retentions = {name: _retention(plans, name, may_skip) for name in _streams(plans)}
        settings = {plan.name: _bounded(settings[plan.name], plan, retentions) for plan in plans}
    random = draws("else")
    scenario = Scenario(
        seed,
        options,
        diagram,
        plans,
        replicas,
        settings,
        _draw_readings(draws("readings"), diagram),
        (),
        {
            name: random.randrange(20_000)
            for names in (diagram.sources, *replicas.values())
            for name in names
        },
        random.choice([1, 1, 3, 8]),
        random.random() < 0.3,
        liars,
        cost=Cost(random.choice([1_000, 1_000, 15_000])),
        retentions=retentions,
    )
    return scenario.with_faults(_draw_faults(draws("faults"), scenario))


def _draw_replicas(
    random: Random, plans: tuple[StagePlan, ...], policy: str
) -> dict[str, tuple[str, ...]]:
    counts = {plan.name: random.choice([1, 2, 2, 2, 3]) for plan in plans}
    if policy in BYZANTINE:
        counts["s1"] = 3 * FAULTY + 1
    elif policy in ("first", "latest"):
        counts["s1"] = 2
    return {
        stage: tuple(f"{stage}/{number}" for number in range(count))
        for stage, count in counts.items()
    }


def _draw_settings(
    random: Random, plans: tuple[StagePlan, ...], options: Options
) -> dict[str, Settings]:
    max_delay: float = math.inf
    if options.policy == "switch":
        max_delay = random.choice([800_000, 1_500_000])
    failing, correcting = Variant.PROCESS, Variant.PROCESS
    if random.random() < 0.2:
        failing = random.choice(list(Variant))
        correcting = random.choice(list(Variant))
    settings = Settings(
        size=SIZE,
        delays=Delays(max_delay, HEADROOM, failing, correcting, PATIENCE),
        heartbeat=HEARTBEAT,
        missed=MISSED,
        long_failure=random.choice([math.inf, 1_000_000]),
        beside=random.random() < 0.7,
        retry=150_000,
    )
    return {
        plan.name: replace(settings, copy_state=plan.span == math.inf or random.random() < 0.5)
        for plan in plans
    }


def _streams(plans: tuple[StagePlan, ...]) -> set[str]:
    inputs = {stream for plan in plans for stream in plan.inputs}
    return inputs | {output.stream for plan in plans for output in plan.outputs}


def _retention(plans: tuple[StagePlan, ...], stream: str, may_skip: bool) -> Retention:
    """What readers that converge need, and the last second of corrections; else a fixed span,
    beyond which everybody waits."""
    span = retention(plans, stream, CORRECTED)
    if span == math.inf or not may_skip:
        return Retention(MOST_KEPT, convergent=False)
    return Retention(span, convergent=True)


def _bounded(settings: Settings, plan: StagePlan, retentions: Mapping[str, Retention]) -> Settings:
    kept = [retentions[stream] for stream in plan.inputs]
    return replace(
        settings,
        retain=max(each.span for each in kept),
        may_skip=all(each.convergent for each in kept),
    )


def _draw_readings(random: Random, diagram: Diagram) -> tuple[Reading, ...]:
    readings = []
    for source in diagram.sources:
        gap = random.choice([20_000, 40_000, 120_000])
        time = random.randrange(gap)
        while time < SOURCES_STOP:
            silent = random.random() < 0.01
            key, value = random.choice("xyz"), random.randrange(100)
            readings.append(Reading(time, source, key, value))
            time += 600_000 if silent else random.randrange(1, 2 * gap)
    return tuple(sorted(readings, key=lambda reading: (reading.time, reading.source)))


def _draw_faults(random: Random, scenario: Scenario) -> list[Fault]:
    family = scenario.options.faults
    breakable = _breakable(random, scenario)
    if family == "none":
        return []
    if family == "short":
        return _draw_short(random, scenario, breakable)
    kinds = {
        "cuts": LINKS,
        "crashes": (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.STAGE),
    }.get(family, tuple(FaultKind))
    longest = HEALED - FIRST_FAULT if family == "long" else 3_000_000
    outage = [_draw_outage(random, scenario)] if random.random() < 0.5 else []
    return outage + draw_faults(
        random,
        breakable,
        count=random.randrange(12, 30) if family == "frequent" else random.randrange(1, 9),
        begin=FIRST_FAULT,
        end=HEALED,
        shortest=50_000,
        longest=800_000 if family == "frequent" else longest,
        kinds=kinds,
    )


def _draw_outage(random: Random, scenario: Scenario) -> Fault:
    """Nobody hears of a source for longer than anybody waits."""
    source = random.choice(scenario.diagram.sources)
    start = random.randrange(FIRST_FAULT, HEALED - 3_000_000)
    end = start + random.randrange(1_600_000, 3_000_000)
    return Fault(FaultKind.PARTITION, start, end, (source,))


def _draw_short(random: Random, scenario: Scenario, breakable: Breakable) -> list[Fault]:
    """Failures one after the other, each shorter than the delay that masks it."""
    delays = next(iter(scenario.settings.values())).delays
    longest = 700_000 if delays.max_delay == math.inf else int(delays.max_delay) - 650_000
    faults: list[Fault] = []
    begin = FIRST_FAULT
    while begin + longest < HEALED:
        faults += draw_faults(
            random,
            breakable,
            count=1,
            begin=begin,
            end=begin + longest,
            shortest=min(50_000, longest),
            longest=longest,
            kinds=(FaultKind.CUT, FaultKind.ONE_WAY, FaultKind.PARTITION, FaultKind.FREEZE),
        )
        begin += longest + 1_500_000
    return faults


def _breakable(random: Random, scenario: Scenario) -> Breakable:
    makers = scenario.makers
    links = set()
    for plan in scenario.plans:
        for replica in scenario.replicas[plan.name]:
            links |= {(maker, replica) for stream in plan.inputs for maker in makers[stream]}
            links |= {(o, replica) for o in scenario.replicas[plan.name] if o < replica}
    for stream in scenario.diagram.outputs:
        links |= {(maker, f"client:{stream}") for maker in makers[stream]}
    crashable = list(scenario.diagram.sources)
    for names in scenario.replicas.values():
        # One replica of each stage lives on, or nobody knows its state any more.
        survivor = random.choice(names)
        crashable += [name for name in names if name != survivor]
    if scenario.liars:
        # Who has lost what others vote on counts as one that can be outvoted, and so do liars.
        compared = set(scenario.replicas["s1"])
        crashable = [name for name in crashable if name not in compared]
    nodes = tuple(name for names in scenario.replicas.values() for name in names)
    return Breakable(
        tuple(sorted(links)), (*scenario.diagram.sources, *nodes), tuple(crashable), nodes
    )
