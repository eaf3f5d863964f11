"""Jobs drawn from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from holdfast.verify.machine import Mode, Model, Plan, Quorum, Rules
from simulator.verified.job import ENDING, SILENCES, Fault, FaultKind, Job

LIES = (
    FaultKind.WRONG,
    FaultKind.COLLUDE,
    FaultKind.COUNT,
    FaultKind.HOLLOW,
    FaultKind.EQUIVOCATE,
    FaultKind.SPLIT,
    FaultKind.BASIS,
    FaultKind.FORGED_RUN,
    FaultKind.ACCUSE,
    FaultKind.HOST,
    FaultKind.REWRITE,
)


def draw_job(
    seed: int, *, mode: Mode | None = None, quorum: Quorum | None = None, beyond: bool | None = None
) -> Job:
    """`beyond`: whether some stage may have more faults than the quorum is for."""
    random = Random(f"{seed}/job")
    mode = mode or random.choice(list(Mode))
    quorum = quorum or random.choice(
        [Quorum(Model.BYZANTINE), Quorum(Model.BYZANTINE, 2), Quorum(Model.CRASH)]
    )
    if beyond is None:
        beyond = random.random() < 0.4
    plan = _draw_plan(random)
    all_to_all = random.random() < 0.2
    verifiers = random.choice([1, 1, 3])
    bad = frozenset({random.randrange(3)} if verifiers == 3 and random.random() < 0.5 else ())
    if quorum.model is Model.CRASH:
        bad = frozenset()
    faults = _draw_faults(random, plan, quorum, beyond)
    if all_to_all:
        bad = frozenset(fault.replica - 1 for fault in faults if fault.kind in LIES)
    pools = {number: frozenset({f"host{number}"}) for number in quorum.numbers}
    own_files = random.random() < 0.7
    retries = random.choice([1, 3])
    rules = Rules(mode, retries, 100.0, 3000.0, own_files=own_files, pools=pools)
    speeds = {number: random.choice([1.0, 1.0, 1.0, 3.0]) for number in quorum.numbers}
    spares = tuple(f"spare{number}" for number in range(random.randint(0, 2)))
    of = (verifiers, bad, all_to_all, speeds, spares, own_files)
    return Job(seed, plan, quorum, rules, faults, *of)


def _draw_plan(random: Random) -> Plan:
    shape = random.choice(["chain", "join", "diamond", "any"])
    stages: dict[str, tuple[str, ...]]
    if shape == "chain":
        stages = {"a": (), "b": ("a",), "c": ("b",)}
    elif shape == "join":
        stages = {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}
    elif shape == "diamond":
        stages = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    else:
        stages = {}
        for name in "abcdef"[: random.randint(1, 6)]:
            known = list(stages)
            stages[name] = tuple(random.sample(known, random.randint(0, min(3, len(known)))))
    return Plan(stages, random.choice([1, 2, 4]))


def _draw_faults(random: Random, plan: Plan, quorum: Quorum, beyond: bool) -> tuple[Fault, ...]:
    if quorum.model is Model.CRASH:
        return _draw_crashes(random, plan, quorum, beyond)
    faults: list[Fault] = []
    ended: set[int] = set()
    for stage in plan.stages:
        most = 2 * quorum.faults if beyond else quorum.faults
        room = most - len(ended)
        others = [number for number in quorum.numbers if number not in ended]
        count = random.randint(0, max(0, room))
        alike = _draw_fault(random, plan) if random.random() < 0.4 else None
        if random.random() < 0.1:
            count, alike = max(0, room), Fault(FaultKind.COLLUDE, 0, "", 2)
        for replica in random.sample(others, count):
            fault = replace(alike or _draw_fault(random, plan), replica=replica, stage=stage)
            if fault.kind in ENDING:
                ended.add(replica)
            faults.append(fault)
        if beyond and random.random() < 0.1:
            faults += [Fault(FaultKind.TAMPER, each, stage, 1) for each in quorum.numbers]
    return tuple(faults)


def _draw_fault(random: Random, plan: Plan) -> Fault:
    """Of nobody yet, at no stage."""
    kind = random.choice(LIES if random.random() < 0.7 else SILENCES)
    if kind in SILENCES:
        return Fault(kind, 0, "", 1 if kind is FaultKind.RESTART else 1_000_000)
    times = random.choice([1, 1, 2, 1_000_000])
    return Fault(kind, 0, "", times, random.choice([None, None, random.randrange(plan.slices)]))


def _draw_crashes(random: Random, plan: Plan, quorum: Quorum, beyond: bool) -> tuple[Fault, ...]:
    most = quorum.replicas if beyond else quorum.faults
    victims = random.sample(list(quorum.numbers), random.randint(0, most))
    kinds = [FaultKind.HANG, FaultKind.CRASH, FaultKind.RESTART, FaultKind.MUTE]
    stages = list(plan.stages)
    return tuple(
        Fault(kind, victim, random.choice(stages), 1 if kind is FaultKind.RESTART else 1_000_000)
        for victim in victims
        if (kind := random.choice(kinds))
    )
