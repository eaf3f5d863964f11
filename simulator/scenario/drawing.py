"""What one seed decides: pipeline, replicas, settings, workload, faults and liars.

Each of these has a stream of randomness of its own, so that leaving out a fault changes nothing
else about the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Final

from holdfast.pipeline.gates.order import Delays, Variant
from holdfast.pipeline.machine.commands import Settings
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.source import EventClock
from holdfast.pipeline.machine.tuples import ROW
from simulator.diagram import Diagram, StagePlan, retention, rewrite
from simulator.liars import CLEVER, Lie, LieKind, draw_liars
from simulator.parties.node import Cost
from simulator.scenario.options import (
    BYZANTINE,
    COMPARING,
    FAULTY,
    RESTARTS,
    UNRULY,
    WITH_TWINS,
    Options,
)
from simulator.scenario.scenario import Reading, Scenario
from simulator.scenario.schedule import draw_ahead, draw_schedule
from simulator.scenario.times import (
    CORRECTED,
    END,
    FIRST_FAULT,
    HEADROOM,
    HEARTBEAT,
    HOUR,
    LASTING_END,
    LASTING_HEALED,
    LASTING_STOP,
    LOOK,
    MISSED,
    MOST_KEPT,
    PATIENCE,
    SILENCE,
    SIZE,
    SOURCES_STOP,
    WILD,
    WIPES_END,
)
from simulator.topologies import draw_topology

ALONE: Final[tuple[LieKind, ...]] = ("alone", "alone", "forged")
TOGETHER: Final[tuple[LieKind, ...]] = ("together", "glitch")
LONGER: Final = 4_000_000
"""With bounded memory and restarts: for how much longer sources may be away, and runs last."""
SLOW_COPIES: Final = (0, 0, 0, 2_000_000, 5_000_000)
"""How long copies take that take far longer than a peer is asked in vain."""
DISORDERLY: Final[tuple[LieKind, ...]] = ("omitting", "repeating", "disordering")


def draw_scenario(seed: int, options: Options) -> Scenario:
    """The scenario of a seed."""

    def draws(what: str) -> Random:
        return Random(f"{seed}/{what}")

    topology = options.topology
    if topology == "any" and options.policy in COMPARING:
        topology = draws("which").choice(COMPARING[options.policy])
    if topology == "any" and options.faults == "wipes":
        topology = draws("which").choice(["any", "last-rows"])
    size = draws("size").choice([40_000, 100_000, 250_000]) if options.faults == "varied" else SIZE
    diagram = draw_topology(topology, draws("topology"), size)
    plans = rewrite(diagram)
    faulty = draws("faulty").choice([1, 1, 2]) if options.faults == UNRULY else FAULTY
    replicas = _draw_replicas(draws("replicas"), plans, options.policy, faulty)
    settings = _draw_settings(draws("settings"), plans, options)
    liars: dict[str, Lie] = {}
    if options.policy in BYZANTINE:
        kinds = (*ALONE, *TOGETHER) if options.policy == "vote" else ALONE
        if options.policy == "sample":
            kinds = (*ALONE, *CLEVER)
        if options.faults == RESTARTS:
            # Who restarts cannot calculate again what a vote was split about.
            kinds = ALONE
        if options.faults == UNRULY:
            kinds = DISORDERLY
        liars = draw_liars(draws("liars"), replicas["s1"], faulty, kinds)
    retentions: dict[str, Retention] = {}
    bounded = options.faults == RESTARTS and draws("bounded").random() < 0.3
    if options.faults == "long" or bounded:
        may_skip = options.policy == "switch"
        retentions = {name: _retention(plans, name, may_skip) for name in _streams(plans)}
        settings = {plan.name: _bounded(settings[plan.name], plan, retentions) for plan in plans}
    if options.faults == "wipes" and draws("kept").random() < 0.5:
        retentions = dict.fromkeys(_streams(plans), Retention(least=math.inf))
    twins = _draw_twins(draws("twins"), diagram, options, retentions)
    random = draws("else")
    longer = LONGER if bounded else 0
    stop = LASTING_STOP if options.faults == "lasting" else SOURCES_STOP + longer
    scenario = Scenario(
        seed,
        options,
        diagram,
        plans,
        replicas,
        settings,
        _draw_readings(draws("readings"), diagram, stop),
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
        twins=twins,
    )
    scenario = replace(
        scenario,
        ahead=_draw_more_clocks(draws("twins/clocks"), scenario),
        settings=_draw_rooms(draws("rooms"), _draw_most(draws("most"), settings)),
    )
    scenario = _draw_beats(draws("beats"), scenario)
    if options.faults == "varied":
        scenario = _vary(draws("varied"), scenario, size)
    elif options.faults == "wipes":
        scenario = replace(scenario, until=WIPES_END)
    elif options.faults == RESTARTS:
        copy = draws("restarts").choice([0, 0, 100_000, 400_000])
        slow = draws("slow copies").choice(SLOW_COPIES)
        # Slow enough that replicas die while they begin anew.
        bucket = 15_000 if bounded else scenario.cost.bucket
        scenario = replace(
            scenario,
            cost=replace(scenario.cost, copy=max(copy, slow), bucket=bucket),
            healed=scenario.healed + longer,
            until=scenario.until + longer + 2 * slow,
        )
    elif options.faults == "lasting":
        scenario = replace(scenario, healed=LASTING_HEALED, until=LASTING_END)
    elif options.faults == "clocks":
        scenario = _set_clocks(draws("clocks"), scenario)
    cost = replace(scenario.cost, pieces=draws("copies").choice([1, 1, 2, 5, 40]))
    scenario = replace(scenario, cost=cost)
    return scenario.with_faults(draw_schedule(draws("faults"), scenario))


def _vary(random: Random, scenario: Scenario, size: int) -> Scenario:
    """Buckets of this size, inputs with delays of their own, and clocks that are other ones after
    each restart, or that nobody sets, or both."""
    settings = {
        plan.name: replace(
            scenario.settings[plan.name],
            size=size,
            delays=replace(
                scenario.settings[plan.name].delays,
                inputs={
                    stream: random.choice([400_000, 700_000])
                    for stream in plan.inputs
                    if random.random() < 0.3 and scenario.options.policy == "switch"
                },
            ),
        )
        for plan in scenario.plans
    }
    kinds = [(20_000, True), (WILD, False), (WILD, True)]
    clocks, step = random.choice(kinds[:1] if scenario.twins else kinds)
    ahead = {name: random.randrange(clocks) for name in scenario.ahead}
    return replace(
        scenario,
        size=size,
        settings=settings,
        ahead=ahead,
        until=END + _more_work(scenario.cost, size),
        clocks=clocks,
        clocks_step=step,
    )


def _more_work(cost: Cost, size: int) -> int:
    """How much longer a stage may take to catch up because buckets are smaller than usual: base and
    fork in turn, with all buckets that the longest failure has kept from it."""
    span = SOURCES_STOP - FIRST_FAULT
    return max(0, span // size - span // SIZE) * 2 * cost.bucket


def _set_clocks(random: Random, scenario: Scenario) -> Scenario:
    """Clocks that are and will be set, of sources too or of others only; and some sources whose
    readings say their own times, and that fall silent."""
    sources = scenario.diagram.sources
    are_set = random.random() < 0.6
    ahead = {
        name: draw_ahead(random) if are_set or name not in sources else kept
        for name, kept in scenario.ahead.items()
    }
    timed = [name for name in sources if random.random() < 0.3]
    event_clocks = {
        name: EventClock(
            scenario.size,
            random.choice([0, 50_000, 200_000]),
            random.choice([150_000, 300_000, 500_000]),
            looks=2 * LOOK,
        )
        for name in timed
    }
    readings = []
    silences = {name: random.randrange(SOURCES_STOP) for name in timed if random.random() < 0.7}
    for reading in scenario.readings:
        begins = silences.get(reading.source, SOURCES_STOP)
        if begins <= reading.time < begins + SILENCE:
            continue
        known = event_clocks.get(reading.source)
        late = 0 if known is None else random.randrange(known.lateness + 1)
        readings.append(replace(reading, at=max(0, reading.time - late)))
    for name in timed:
        if random.random() < 0.7:
            # It speaks until all is over.
            times = range(SOURCES_STOP, scenario.until, random.choice([20_000, 40_000, 120_000]))
            readings += [Reading(time, name, "x", time % 100, at=time) for time in times]
    return replace(
        scenario,
        ahead=ahead,
        clocks=HOUR if are_set else scenario.clocks,
        event_clocks=event_clocks,
        readings=tuple(readings),
        counts_sleep=random.random() < 0.7,
    )


def _draw_twins(
    random: Random, diagram: Diagram, options: Options, retentions: Mapping[str, Retention]
) -> tuple[str, ...]:
    """About a quarter of the sources, but none that has to wait for its readers: twins do not."""
    drawn = [source for source in diagram.sources if random.random() < 0.25]
    if options.policy not in WITH_TWINS or options.faults == "clocks":
        return ()
    return tuple(s for s in drawn if s not in retentions or retentions[s].convergent)


def _draw_more_clocks(random: Random, scenario: Scenario) -> dict[str, int]:
    """Those of twins, in place of that of their source."""
    ahead = {name: ahead for name, ahead in scenario.ahead.items() if name not in scenario.twins}
    proxies = [name for source in scenario.twins for name in scenario.makers[source]]
    return ahead | {name: random.randrange(20_000) for name in proxies}


def _draw_replicas(
    random: Random, plans: tuple[StagePlan, ...], policy: str, faulty: int
) -> dict[str, tuple[str, ...]]:
    counts = {plan.name: random.choice([1, 2, 2, 2, 3]) for plan in plans}
    if policy in BYZANTINE:
        counts["s1"] = 3 * faulty + 1
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


def _draw_most(random: Random, settings: Mapping[str, Settings]) -> dict[str, Settings]:
    """How many buckets are processed at once."""
    return {
        stage: replace(each, most=random.choice([1, 1, 2, 20])) for stage, each in settings.items()
    }


def _draw_rooms(random: Random, settings: Mapping[str, Settings]) -> dict[str, Settings]:
    """How many bytes may wait at each gate."""
    rooms = [math.inf, 1, 20 * ROW]
    return {stage: replace(each, room=random.choice(rooms)) for stage, each in settings.items()}


def _draw_beats(random: Random, scenario: Scenario) -> Scenario:
    """Heartbeats of each stage. Where nothing fails or is tentative, they may be far longer than
    all that is read between two of them; else failures would be noticed too late. Only in a stage
    that reads sources, for the others begin one heartbeat after the one before them."""
    beats = [HEARTBEAT // 2, HEARTBEAT]
    long = [*beats, 10 * HEARTBEAT, 100 * HEARTBEAT]
    is_calm = scenario.options.faults == "none" and scenario.options.policy == "order"
    settings = dict(scenario.settings)
    for plan in scenario.plans:
        is_first = set(plan.inputs) <= set(scenario.diagram.sources)
        beat = random.choice(long if is_calm and is_first else beats)
        settings[plan.name] = replace(settings[plan.name], heartbeat=beat)
    return replace(scenario, settings=settings)


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


def _draw_readings(random: Random, diagram: Diagram, stop: int) -> tuple[Reading, ...]:
    readings = []
    for source in diagram.sources:
        gap = random.choice([20_000, 40_000, 120_000])
        time = random.randrange(gap)
        while time < stop:
            silent = random.random() < 0.01
            key, value = random.choice("xyz"), random.randrange(100)
            readings.append(Reading(time, source, key, value))
            time += 600_000 if silent else random.randrange(1, 2 * gap)
    return tuple(sorted(readings, key=lambda reading: (reading.time, reading.source)))
