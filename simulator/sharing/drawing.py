"""Scenarios drawn from a seed, and those that kill at every step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

from holdfast.pipeline.machine.sharing import Guarantee, Plan, Rules, Step
from simulator.sharing.scenario import (
    SECOND,
    Freeze,
    Kill,
    Role,
    Scenario,
    StepKill,
    Weather,
    When,
    plans,
)

SLOT = 8 * SECOND
"""Failures of neighbours on a tuple's way are so far apart that the first is mended."""
ROUTINGS = ("round-robin", "key", "random", "primary")


def _rules(random: Random, guarantee: Guarantee, hops: int) -> Rules:
    return Rules(
        guarantee,
        hops=hops,
        capacity=random.choice([8, 32, 1024]),
        period=200_000,
        retry=100_000,
        nudge=800_000,
        patience=SECOND,
        linger=random.choice([0, 0, 5_000]),
    )


def draw_sharing(seed: int, guarantee: Guarantee | None = None) -> Scenario:
    """Faults within what is promised, of every kind, and a bad network."""
    random = Random(f"{seed}/sharing scenario")
    guarantee = guarantee or random.choice(list(Guarantee))
    replicas = random.choice([2, 3, 3, 4])
    plan = random.choice(list(plans(replicas).values()))
    hops = random.choice([1, 1, 2])
    slots = random.choice([1, 2])
    faults = _draw_faults(random, plan, slots, hops)
    calm = slots * SLOT
    weather = Weather(
        random.choice([0, 0.02, 0.1]), random.choice([0, 0.1]), random.choice([500, 20_000]), calm
    )
    tuples = random.choice([20, 50])
    return Scenario(
        seed,
        plan,
        _rules(random, guarantee, hops),
        random.choice(ROUTINGS),
        tuples,
        int(calm / tuples),
        faults,
        None,
        weather,
        calm + 14 * SECOND,
    )


def _draw_faults(random: Random, plan: Plan, slots: int, hops: int) -> tuple[Kill | Freeze, ...]:
    """In each slot those of one operator, or of `hops` in a row; one of each is never touched."""
    names = _operators(plan)
    faults: list[Kill | Freeze] = []
    gone = {random.choice(plan.replicas(name)) for name in names}
    for slot in range(slots):
        start = random.randrange(len(names))
        moment = slot * SLOT + random.uniform(0.05, 1.5) * SECOND
        for operator in names[start : start + hops]:
            able = [name for name in plan.replicas(operator) if name not in gone]
            for victim in random.sample(able, random.randint(min(1, len(able)), len(able))):
                fault = _draw_fault(random, victim, int(moment))
                faults.append(fault)
                if isinstance(fault, Kill) and fault.back is None:
                    gone.add(victim)
                # Together, a little later, or just when the first has been taken over from.
                moment += random.choice([0, 3_000, 900_000, 1_100_000])
    return tuple(faults)


def _operators(plan: Plan) -> list[str]:
    return [name for name in plan.operators if plan.below(name) and not plan.is_source(name)]


def _draw_fault(random: Random, victim: str, moment: int) -> Kill | Freeze:
    if random.random() < 0.35:
        return Freeze(victim, moment, random.choice([300_000, 1_500_000, 3_000_000]))
    return Kill(victim, moment, random.choice([None, 1_000, 300_000, 1_000_000, 2_500_000]))


def draw_beyond(seed: int, guarantee: Guarantee) -> Scenario:
    """Replicas of neighbours on a tuple's way end together: more than one hop is for."""
    random = Random(f"{seed}/sharing beyond")
    plan = plans(3)["chain"]
    victims = [random.choice(plan.replicas(name)) for name in ("a", "b")]
    moment = int(random.uniform(0.3, 1.2) * SECOND)
    faults = tuple(Kill(victim, moment, random.choice([None, SECOND])) for victim in victims)
    weather = Weather(0.02, 0.02, 150_000, 2 * SECOND)
    rules = _rules(random, guarantee, 1)
    return Scenario(
        seed, plan, rules, "random", 60, 20_000, faults, None, weather, 16 * SECOND, False
    )


def step_kills(guarantee: Guarantee, hops: int = 1) -> Iterator[Scenario]:
    """Two operators, eight steps, and at each the worker, a colleague or its partner dies."""
    plan = plans(3)["chain"]
    for operator, step, role in product(("a", "b"), Step, Role):
        for when in When if role is Role.WORKER else (When.BEFORE,):
            for back in (None, 500_000):
                random = Random(f"{operator}/{step}/{role}/{when}/{back}")
                kill = StepKill(operator, _taken(guarantee, step), role, when, 5, back)
                rules = _rules(random, guarantee, hops)
                yield Scenario(0, plan, rules, tuples=12, step_kill=kill, end=9 * SECOND)


def _taken(guarantee: Guarantee, step: Step) -> Step:
    """At most once receives and sends on, and that is all."""
    if guarantee is not Guarantee.AT_MOST_ONCE:
        return step
    return Step.RECEIVED if step.value < Step.SENT_ON.value else Step.SENT_ON
