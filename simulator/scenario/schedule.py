"""Which faults a scenario has: what of it may break, and for how long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Final

from simulator.faults import Breakable, Fault, FaultKind, draw_faults
from simulator.scenario.options import RESTARTS
from simulator.scenario.scenario import Scenario
from simulator.scenario.times import FIRST_FAULT, HOUR, WILD

NOT_VARIED: Final = (FaultKind.REBOOT, FaultKind.STEP, FaultKind.SUSPEND)
VARIED: Final = tuple(kind for kind in FaultKind if kind not in NOT_VARIED)
WITHOUT_CLIENTS: Final = tuple(kind for kind in VARIED if kind is not FaultKind.CLIENT)
COUNTS: Final = {"frequent": (12, 30), "lasting": (10, 40)}
"""From how many to how many faults there are, where these are not few."""
LINKS: Final = (FaultKind.CUT, FaultKind.ONE_WAY, FaultKind.PARTITION, FaultKind.FLAP)


def draw_schedule(random: Random, scenario: Scenario) -> list[Fault]:
    family, healed = scenario.options.faults, scenario.healed
    breakable = _breakable(random, scenario)
    if family == "none":
        return []
    if family == "short":
        return _draw_short(random, scenario, breakable)
    if family == "wipes":
        return _draw_wipe(random, scenario, breakable)
    if family == "clocks":
        return _draw_clocks(random, scenario, breakable)
    kinds = {
        "cuts": LINKS,
        "crashes": (FaultKind.CRASH, FaultKind.FREEZE, FaultKind.STAGE),
        "varied": VARIED,
        RESTARTS: (*[FaultKind.REBOOT] * len(VARIED), *VARIED),
        "lasting": (*VARIED, FaultKind.REBOOT),
    }.get(family, WITHOUT_CLIENTS)
    longest = {"long": healed - FIRST_FAULT, "lasting": 60_000_000}.get(family, 3_000_000)
    outage = [_draw_outage(random, scenario)] if random.random() < 0.5 else []
    if family == RESTARTS and scenario.retentions:
        outage = _draw_too_long(random, scenario)
    elif family == RESTARTS and random.random() < 0.5:
        outage += _draw_power_cut(random, scenario)
    drawn = outage + draw_faults(
        random,
        breakable,
        count=random.randrange(*COUNTS.get(family, (1, 9))),
        begin=FIRST_FAULT,
        end=healed,
        shortest=50_000,
        longest=800_000 if family == "frequent" else longest,
        kinds=kinds,
    )
    return _spare_one_twin(drawn, scenario)


def _spare_one_twin(faults: Sequence[Fault], scenario: Scenario) -> list[Fault]:
    """Leave out crashes of a proxy while the other one of its source is down."""
    pairs = [scenario.makers[source] for source in scenario.twins]
    other = {name: twin for a, b in pairs for name, twin in ((a, b), (b, a))}
    spared: list[Fault] = []
    for fault in faults:
        is_second = fault.kind is FaultKind.CRASH and any(
            before.kind is FaultKind.CRASH
            and before.targets[0] == other.get(fault.targets[0])
            and before.end > fault.start
            for before in spared
        )
        if not is_second:
            spared.append(fault)
    return spared


def _draw_outage(random: Random, scenario: Scenario) -> Fault:
    """Nobody hears of a source for longer than anybody waits."""
    source = random.choice(scenario.diagram.sources)
    start = random.randrange(FIRST_FAULT, scenario.healed - 3_000_000)
    end = start + random.randrange(1_600_000, 3_000_000)
    return Fault(FaultKind.PARTITION, start, end, scenario.makers[source])


def _draw_too_long(random: Random, scenario: Scenario) -> list[Fault]:
    """Nobody hears of a source for longer than what is missing can be corrected; when it is back,
    the replicas of a stage die while they begin anew, and come back with their disks."""
    end = scenario.healed - 1_500_000
    source = random.choice(scenario.diagram.sources)
    faults = [Fault(FaultKind.PARTITION, FIRST_FAULT, end, scenario.makers[source])]
    for name in scenario.replicas[random.choice(sorted(scenario.replicas))]:
        start = end + random.randrange(50_000, 450_000)
        back = start + random.randrange(10_000, 150_000)
        faults.append(Fault(FaultKind.REBOOT, start, back, (name,)))
    return faults


def _draw_power_cut(random: Random, scenario: Scenario) -> list[Fault]:
    """All replicas of a stage are down at once, and come back with their disks."""
    stage = random.choice(sorted(scenario.replicas))
    start = random.randrange(FIRST_FAULT, scenario.healed - 1_500_000)
    return [
        Fault(FaultKind.REBOOT, start, start + random.randrange(100_000, 1_500_000), (name,))
        for name in scenario.replicas[stage]
    ]


def _draw_wipe(random: Random, scenario: Scenario, breakable: Breakable) -> list[Fault]:
    """All replicas of a stage are down at once, with nothing left; links fail before and after."""
    stage = random.choice(sorted(scenario.replicas))
    start = random.randrange(1_500_000, 3_000_000)
    wiped = [
        Fault(FaultKind.CRASH, start + random.randrange(50_000), start + ends, (name,))
        for name in scenario.replicas[stage]
        for ends in [random.randrange(100_000, 1_200_000)]
    ]
    others = draw_faults(
        random,
        breakable,
        count=random.randrange(3),
        begin=FIRST_FAULT,
        end=scenario.healed,
        shortest=50_000,
        longest=1_500_000,
        kinds=LINKS,
    )
    return sorted(wiped + others, key=lambda fault: fault.start)


def draw_ahead(random: Random) -> int:
    """How far a clock is ahead: most are nearly right."""
    right, off = random.randrange(20_000), random.randrange(50_000, 400_000)
    return random.choice([right, right, right, off, random.randrange(1_000_000, 5_000_000), HOUR])


def _draw_clocks(random: Random, scenario: Scenario, breakable: Breakable) -> list[Fault]:
    """Clocks are set, forward and back, and machines suspended: of one party, of all sources, or of
    some of all kinds, that share a machine. Now and then other things fail too."""
    everybody = (*breakable.parties, *breakable.clients)
    sources = scenario.diagram.sources
    readers = [name for name in everybody if name not in sources]
    # Where the sources keep theirs, all that is promised of latency and of previews holds.
    settable = readers if scenario.clocks < WILD else list(everybody)
    groups = [
        *([name] for name in settable),
        *([list(sources)] if scenario.clocks >= WILD else []),
        random.sample(settable, random.randrange(1, len(settable) + 1)),
    ]
    faults = []
    for _ in range(random.randrange(1, 5)):
        start = random.randrange(FIRST_FAULT, scenario.healed)
        targets = tuple(random.choice(groups))
        faults.append(Fault(FaultKind.STEP, start, start, targets, draw_ahead(random)))
    if random.random() < 0.3:
        faults += _draw_set_right(random, scenario)
        return sorted(faults, key=lambda fault: fault.start)
    for _ in range(random.randrange(3)):
        start = random.randrange(FIRST_FAULT, scenario.healed - 2_000_000)
        end = start + random.randrange(50_000, 2_000_000)
        name = random.choice(everybody)
        faults.append(Fault(FaultKind.SUSPEND, start, end, (name,)))
    faults += draw_faults(
        random,
        breakable,
        count=random.randrange(4),
        begin=FIRST_FAULT,
        end=scenario.healed,
        shortest=50_000,
        longest=3_000_000,
        kinds=VARIED,
    )
    faults += _draw_set_right(random, scenario)
    return sorted(faults, key=lambda fault: fault.start)


def _draw_set_right(random: Random, scenario: Scenario) -> list[Fault]:
    """The clock of a source is ahead, and set right while the source is down."""
    if scenario.clocks < WILD or random.random() < 0.7:
        return []
    source = (random.choice(scenario.diagram.sources),)
    start = random.randrange(FIRST_FAULT, scenario.healed - 2_000_000)
    down = start + random.randrange(200_000, 500_000)
    end = down + random.randrange(100_000, 1_000_000)
    ahead = random.choice([random.randrange(300_000, 5_000_000), HOUR])
    return [
        Fault(FaultKind.STEP, start, start, source, ahead),
        Fault(FaultKind.CRASH, down, end, source),
        Fault(FaultKind.STEP, down + 1, down + 1, source, random.randrange(20_000)),
    ]


def _draw_short(random: Random, scenario: Scenario, breakable: Breakable) -> list[Fault]:
    """Failures one after the other, each shorter than the delay that masks it."""
    delays = next(iter(scenario.settings.values())).delays
    longest = 700_000 if delays.max_delay == math.inf else int(delays.max_delay) - 650_000
    faults: list[Fault] = []
    begin = FIRST_FAULT
    while begin + longest < scenario.healed:
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
    sources = tuple(name for source in scenario.diagram.sources for name in makers[source])
    links |= {(one, other) for one, other in map(makers.__getitem__, scenario.twins)}
    crashable = list(sources)
    for names in scenario.replicas.values():
        # One replica of each stage lives on, or nobody knows its state any more.
        survivor = random.choice(names)
        crashable += [name for name in names if name != survivor]
    if scenario.liars:
        # Who has lost what others vote on counts as one that can be outvoted, and so do liars.
        compared = set(scenario.replicas["s1"])
        crashable = [name for name in crashable if name not in compared]
    nodes = tuple(name for names in scenario.replicas.values() for name in names)
    clients = tuple(f"client:{stream}" for stream in scenario.diagram.outputs)
    return Breakable(tuple(sorted(links)), (*sources, *nodes), tuple(crashable), nodes, clients)
