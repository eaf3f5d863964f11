"""Scenarios drawn from a seed, and those in which somebody dies at each step of a move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from holdfast.federation.machine import (
    SECOND,
    Contract,
    Cost,
    Costs,
    Load,
    Rules,
    Task,
    Units,
    marginal,
    power,
    queueing,
)
from simulator.federation.cheating import CHEATS
from simulator.federation.scenario import (
    Breakdown,
    Change,
    Crash,
    Cut,
    Participant,
    Pause,
    Scenario,
    Step,
    StepCrash,
)
from simulator.federation.world import FederationWorld
from simulator.sharing.scenario import Weather

RULES = Rules(
    period=SECOND,
    gather=SECOND // 20,
    answer=SECOND // 2,
    retry=SECOND // 7,
    prepare=6 * SECOND,
    beat=SECOND // 4,
    patience=3 * SECOND,
    backoff=SECOND,
)
CALM = 20 * SECOND


def draw_steady(seed: int) -> Scenario:
    """Nobody dies, and no message is lost: all is a planned move."""
    return _draw(Random(f"steady {seed}"), seed, faults=False)


def draw_federation(seed: int) -> Scenario:
    """A few participants, some overloaded, and all that can go wrong until it is calm."""
    return _draw(Random(f"federation {seed}"), seed, faults=True)


def draw_pauses(seed: int) -> Scenario:
    """The network is well and nobody dies; load managers are paused, and letters sent again."""
    random = Random(f"pauses {seed}")
    scenario = _draw(random, seed, faults=False)
    names = list(scenario.participants)
    return replace(scenario, pauses=_pauses(random, names), replays=random.choice([0.0, 0.2]))


def _pauses(random: Random, names: list[str]) -> list[Pause]:
    return [
        Pause(
            random.choice(names),
            random.randrange(SECOND, CALM - 6 * SECOND),
            random.choice([SECOND, 4 * SECOND, 6 * SECOND]),
        )
        for _ in range(random.randint(1, 4))
    ]


def draw_replays(seed: int) -> Scenario:
    """Somebody dies for good, and somebody else sends its last letters again and again."""
    random = Random(f"replays {seed}")
    scenario = _draw(random, seed, faults=False)
    name = random.choice(list(scenario.participants))
    crash = Crash(name, random.randrange(5 * SECOND, CALM), None)
    return replace(scenario, crashes=[crash], replays=0.2)


def draw_breakdowns(seed: int) -> Scenario:
    """From some time on no task runs at anybody but its owner."""
    random = Random(f"breakdowns {seed}")
    scenario = _draw(random, seed, faults=False)
    at = random.randrange(5 * SECOND, 15 * SECOND)
    names = list(scenario.participants)
    return replace(scenario, breakdowns=[Breakdown(name, at, 10**12) for name in names])


def draw_cheats(seed: int, kind: str | None = None) -> Scenario:
    """Some cheat, some are honest; letters are recorded and sent again, machines are paused, their
    dates are set, and tasks of others do not run. `kind`: all cheats cheat like this."""
    random = Random(f"cheats {seed}")
    scenario = _draw(random, seed, faults=seed % 2 == 0)
    names = list(scenario.participants)
    random.shuffle(names)
    kinds = sorted(CHEATS)
    cheats = {
        name: kind or random.choice(kinds) for name in names[: random.randint(1, len(names) - 1)]
    }
    return replace(
        scenario,
        # Short against the run, so that what is lost is seen.
        rules=replace(RULES, patience=SECOND),
        # Without a duration there is no time that is paid.
        contracts=[
            replace(each, duration=each.duration or 4 * SECOND) for each in scenario.contracts
        ],
        changes=(),
        cheats=cheats,
        replays=random.choice([0.0, 0.1, 0.3]),
        pauses=_pauses(random, names) if seed % 3 == 0 else (),
        steps=[
            Step(name, random.randrange(CALM), random.choice([-3600, 3600]) * SECOND)
            for name in names
            if random.random() < 0.3
        ],
        breakdowns=[Breakdown(names[-1], random.randrange(CALM), 10**12)]
        if random.random() < 0.3
        else (),
    )


def draw_dates(seed: int) -> Scenario:
    """All that is honest is killed, once or several times, and has another date afterwards; sellers
    that cheat claim that they have served for all that time."""
    random = Random(f"dates {seed}")
    scenario = draw_cheats(seed, random.choice(["claims_more", "claims_more", "pays_nothing"]))
    crashes, steps = list(scenario.crashes), []
    for name in sorted(scenario.participants.keys() - scenario.cheats.keys()):
        at = random.randrange(5 * SECOND, 14 * SECOND)
        by = random.choice([-3600, 3600, 3600]) * SECOND
        steps.append(Step(name, at - random.randrange(2 * SECOND), by))
        for _ in range(random.choice([1, 1, 3])):
            crashes.append(Crash(name, at, random.choice([SECOND // 10, SECOND, 3 * SECOND])))
            at += random.randrange(SECOND // 2, 5 * SECOND)
    return replace(scenario, crashes=crashes, steps=steps)


def _draw(random: Random, seed: int, *, faults: bool) -> Scenario:
    names = [f"p{at}" for at in range(random.randint(2, 5))]
    participants = {name: _participant(random, name) for name in names}
    contracts = []
    for buyer in names:
        for seller in names:
            if buyer != seller and random.random() < 0.7:
                contracts.append(_contract(random, buyer, seller, participants[buyer].cost))
    scenario = Scenario(
        seed,
        participants,
        contracts,
        RULES,
        changes=_changes(random, participants),
        unable=random.choice([0.0, 0.0, 0.2]) if faults else 0.0,
        end=CALM + 6 * SECOND,
    )
    if not faults:
        return scenario
    weather = Weather(
        loss=random.choice([0.0, 0.05, 0.2]),
        repeats=random.choice([0.0, 0.1, 0.3]),
        jitter=random.choice([2_000, 50_000, 300_000]),
        calm=CALM,
    )
    return replace(
        scenario,
        weather=weather,
        crashes=_crashes(random, names),
        cuts=[_cut(random, names) for _ in range(random.randint(0, 2))],
    )


def _participant(random: Random, name: str) -> Participant:
    scale = random.choice([0.5, 1.0, 2.0])
    cost: Cost = random.choice(
        [
            Costs(queueing(scale=scale), queueing(scale=scale)),
            Costs(power(4 * scale, 2.0), power(scale, 3.0)),
            Costs(queueing(0.9, scale), power(scale, 2.0)),
        ]
    )
    heavy = random.random() < 0.5
    tasks = [
        Task(
            f"{name}-t{at}",
            Load(random.randint(1, 30) / 100, random.choice([0.0, random.random() / 10])),
            random.choice(["stage", "stage", "private"]),
        )
        for at in range(random.randint(3, 9) if heavy else random.randint(0, 3))
    ]
    return Participant(cost, tuple(tasks))


def _contract(random: Random, buyer: str, seller: str, cost: Cost) -> Contract:
    level = random.uniform(0.4, 0.95)
    high = marginal(cost, Load(0.01), Load(level)) / 0.01
    low = high if random.random() < 0.5 else high * random.uniform(0.6, 0.95)
    return Contract(
        buyer,
        seller,
        high,
        low,
        duration=random.choice([None, 3 * SECOND, 8 * SECOND]),
        units=Units(1.0, random.choice([0.0, 0.5])),
        kinds=random.choice([None, None, frozenset({"stage"})]),
        onward=random.random() < 0.8,
    )


def _changes(random: Random, participants: dict[str, Participant]) -> list[Change]:
    tasks = [task for each in participants.values() for task in each.tasks]
    if not tasks:
        return []
    return [
        Change(
            random.randrange(CALM),
            random.choice(tasks).id,
            Load(random.randint(1, 40) / 100, random.random() / 10),
        )
        for _ in range(random.randint(0, 4))
    ]


def _crashes(random: Random, names: list[str]) -> list[Crash]:
    crashes = [
        Crash(
            random.choice(names),
            random.randrange(SECOND, CALM - 6 * SECOND),
            random.choice([SECOND // 10, SECOND, 5 * SECOND]),
        )
        for _ in range(random.randint(0, 4))
    ]
    if random.random() < 0.3:
        crashes.append(Crash(random.choice(names), random.randrange(CALM), None))
    return crashes


def _cut(random: Random, names: list[str]) -> Cut:
    one, other = random.sample(names, 2)
    return Cut(one, other, random.randrange(CALM - 8 * SECOND), random.randrange(8 * SECOND))


def step_crashes(
    back: int | None = SECOND, *, chain: bool = False, ranges: bool = False
) -> Iterator[Scenario]:
    """One overloaded participant, one or two partners; each dies before each of its commands.

    Its tasks go out, are renewed, and come home when its load falls. In a `chain` the partner hands
    them on, for its own partner is cheaper.
    """
    whole = _one_move(chain, ranges)
    world = FederationWorld(whole)
    world.run()
    for name, party in world.parties.items():
        for step in range(1, party.steps + 1):
            yield replace(whole, step_crash=StepCrash(name, step, back))


def _one_move(chain: bool, ranges: bool) -> Scenario:
    cost = Costs(power(10.0, 2.0), power(1.0, 2.0))
    cheap = Costs(power(1.0, 2.0), power(1.0, 2.0))
    tasks = tuple(Task(f"t{at}", Load(0.3)) for at in range(3))
    low = 9.0 if ranges else 12.0
    contracts = [Contract("a", "b", 12.0, low, duration=4 * SECOND)]
    participants = {"a": Participant(cost, tasks), "b": Participant(cost, ())}
    if chain:
        contracts.append(Contract("b", "c", 2.0, 2.0, duration=2 * SECOND))
        participants["c"] = Participant(cheap, ())
    changes = [Change(9 * SECOND, each.id, Load(0.1)) for each in tasks]
    return Scenario(0, participants, contracts, RULES, changes=changes, end=18 * SECOND)
