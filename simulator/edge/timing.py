"""Scenarios about time, silence and absence: a calm one, changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from simulator.edge.scenario import (
    DAY,
    EMITTING,
    END,
    HEALED,
    NEVER,
    Emission,
    Fault,
    Scenario,
    during,
)

MINUTES: Final = 600_000_000
"""Ten of them: so far clocks are wrong."""
SKEWS: Final = (-MINUTES, -2_000_000, 0, 2_000_000, MINUTES)


def change(random: Random, scenario: Scenario) -> Scenario:
    """By its family; nothing for those that are drawn elsewhere."""
    changes = {
        "clocks": _clocks,
        "silence": _silence,
        "history": _history,
        "duels": _duels,
        "absent": _absent,
        "busy": _busy,
        "disk": _disk,
    }
    found = changes.get(scenario.options.family)
    return scenario if found is None else found(random, scenario)


def _each(scenario: Scenario, emissions: Sequence[Emission]) -> tuple[tuple[Emission, ...], ...]:
    by_name = {each.name: each for each in emissions}
    return tuple(tuple(by_name[e.name] for e in tier) for tier in scenario.emissions)


def _options(random: Random, each: Emission) -> Emission:
    """Sensors that hear of the root's clock often, and rest soon."""
    options = replace(each.options, refresh=100_000, idle=random.choice([100_000, 200_000]))
    return replace(each, options=options)


def _some_crash(random: Random, scenario: Scenario) -> list[Fault]:
    """One child dies, in half of them."""
    if random.random() < 0.5:
        return []
    return [during(random, "crash", (random.choice(scenario.children[0]),))]


def _clocks(random: Random, scenario: Scenario) -> Scenario:
    """Minutes wrong from the start, set while they run, set back while a node is down; suspended
    machines; events that have their times from a wrong clock. The root's own is set by seconds: all
    others follow it."""
    emissions = [
        replace(
            _options(random, each),
            stamps=True,
            ahead=MINUTES + random.choice(SKEWS),
            silent=EMITTING,
        )
        for tier in scenario.emissions
        for each in tier
    ]
    root = scenario.root
    if len(emissions) > 1 and random.random() < 0.5:
        # Its lines have times, by its own clock. What is refused is counted, and stops no window.
        own = replace(emissions[-1].options, ahead=100_000)
        wrong = MINUTES + random.choice([-MINUTES, MINUTES])
        emissions[-1] = replace(
            emissions[-1],
            stamps=False,
            rests=True,
            ahead=wrong,
            silent=NEVER,
            until=END,
            options=own,
        )
        root = replace(root, ahead=100_000, history=1_000_000)
    children = scenario.children[0]
    clocks = {name: MINUTES + random.choice(SKEWS) for name in children} | {"root": MINUTES}
    faults = _some_crash(random, scenario)
    crashed = faults[0].targets[0] if faults else None
    names = [*children, *(each.name for each in emissions)]
    for _ in range(random.choice([0, 1, 3])):
        at = random.randrange(150_000, HEALED)
        name, by = random.choice(names), random.choice([step for step in SKEWS if step])
        faults.append(Fault("clock", at, at, (name,), by))
    if random.random() < 0.4:
        at = random.randrange(400_000, HEALED)
        by = random.choice([-1_000_000, -100_000, 100_000, 1_000_000])
        faults.append(Fault("clock", at, at, ("root",), by))
    if random.random() < 0.4:
        name = random.choice([name for name in names if name != crashed])
        faults.append(during(random, "suspend", (name,)))
    return replace(
        scenario,
        root=root,
        emissions=_each(scenario, emissions),
        clocks=clocks,
        faults=tuple(faults),
        set_back=dict.fromkeys(children, random.choice([0, 1_000, MINUTES])),
    )


def _silence(random: Random, scenario: Scenario) -> Scenario:
    """Sensors that have nothing for a while, or for ever, or end; all of them, in some."""
    emissions = []
    all_end = random.random() < 0.3
    for tier in scenario.emissions:
        for each in tier:
            silent = random.choice([0, EMITTING, random.randrange(300_000, EMITTING)])
            over = random.choice([NEVER, random.randrange(400_000, EMITTING)])
            if all_end and over == NEVER:
                over = EMITTING
            found = _options(random, each)
            emissions.append(replace(found, stamps=True, rests=True, silent=silent, over=over))
    return replace(
        scenario,
        root=replace(scenario.root, linger=300_000),
        emissions=_each(scenario, emissions),
        faults=tuple(_some_crash(random, scenario)),
    )


def _history(random: Random, scenario: Scenario) -> Scenario:
    """The root's clock is a day later than the events, which come as fast as can be, and end. None
    of the sensors may be left behind."""
    emissions = [
        replace(
            _options(random, each),
            speed=random.choice([2, 5, 20]),
            over=0,
            ahead=DAY + random.choice(SKEWS),
            joins=random.choice([0, random.randrange(300_000)]),
            silent=NEVER,
        )
        for tier in scenario.emissions
        for each in tier
    ]
    root = replace(
        scenario.root,
        expected=tuple(each.name for each in emissions),
        gather=1_000_000,
        linger=300_000,
        ahead=1_000_000,
        history=2 * DAY,
    )
    return replace(
        scenario,
        root=root,
        emissions=_each(scenario, emissions),
        clocks={**scenario.clocks, "root": DAY},
        faults=tuple(_some_crash(random, scenario)),
    )


def _duels(random: Random, scenario: Scenario) -> Scenario:
    """Two children that do not hear each other, one way or both. Sensors hear them, and the root in
    most: in the others they can only back off."""
    pair = random.sample(list(scenario.children[0]), 2)
    start = random.randrange(150_000, 600_000)
    kind = random.choice(["cut", "cut", "one-way"])
    fault = Fault(kind, start, HEALED, (pair[0], pair[1]))  # type: ignore[arg-type]
    faults = [fault]
    if kind == "cut" and random.random() < 0.5:
        faults += [Fault("cut", start, HEALED, (name, "root")) for name in pair]
    # One that the root does not hear holds up all panes: of the others few have room there.
    most = random.choice([0, 2_000, scenario.root.most_held])
    return replace(
        scenario,
        root=replace(scenario.root, most_held=most),
        intermediate=replace(scenario.intermediate, most_held=most),
        faults=tuple(faults),
    )


def _absent(random: Random, scenario: Scenario) -> Scenario:
    """Children that come late or never; enough of them come."""
    children = scenario.children[0]
    least = random.randint(1, len(children) - 1)
    away = random.sample(list(children), random.randint(1, len(children) - least))
    late = [random.randrange(100_000, HEALED), NEVER]
    return replace(
        scenario,
        root=replace(scenario.root, replication=least, gather=random.choice([50_000, 200_000])),
        starts={name: random.choice(late) for name in away},
    )


def _busy(random: Random, scenario: Scenario) -> Scenario:
    """Payloads take so long that signs of life go without them, and a child dies."""
    children = list(scenario.children[0])
    pairs = [(one, other) for one in children for other in children if one != other]
    links = random.sample(pairs, random.randint(1, len(pairs)))
    faults = [during(random, "busy", pair) for pair in links]
    return replace(scenario, faults=(*faults, *_some_crash(random, scenario)))


def _disk(random: Random, scenario: Scenario) -> Scenario:
    """The root cannot write for a while, dies meanwhile in some, and so does a child."""
    faults = [during(random, "disk", ("root",)) for _ in range(random.choice([1, 2, 3]))]
    if random.random() < 0.5:
        start = faults[0].start + random.randrange(200_000)
        end = min(HEALED, start + random.choice([20_000, 200_000]))
        faults.append(Fault("crash", start, end, ("root",)))
    return replace(scenario, faults=(*faults, *_some_crash(random, scenario)))
