"""A run of the edge to be simulated: who takes part, what is asked, what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Literal

from holdfast.edge.machine import (
    BeatOptions,
    ChildOptions,
    Guarantee,
    IntermediateOptions,
    Query,
    RootOptions,
    SensorOptions,
)
from holdfast.edge.machine.formation import GroupPlan, name_of
from holdfast.edge.machine.sensor import incarnation

GUARANTEES: Final[tuple[Guarantee, ...]] = ("exactly-once", "at-least-once", "at-most-once")

FAMILIES: Final = (
    "calm",
    "noise",
    "crashes",
    "steps",
    "takers",
    "freezes",
    "cuts",
    "joins",
    "growth",
    "restarts",
    "tiers",
    "overflow",
    "storm",
    "clocks",
    "silence",
    "history",
    "duels",
    "absent",
    "roots",
    "busy",
    "disk",
)
"""Kinds of trouble: none; loss, repetition and overtaking; children die, up to all but one; one
dies at a step of the protocol; those who take over die; false suspicion; links cut, one way too;
sensors and queries come while children die; children join while others die, or die themselves;
sensors die and come back under their names; intermediates and several groups; buffers too small;
all of these. Then those of `timing`: clocks that are minutes wrong, and are set; sensors that are
silent, and that end; events of yesterday; two children that do not hear each other; children that
do not come. And the root's process dies, which comes back with what it has written down; states
are so large that their payloads are on their way for long; the root's disk is full."""

DAY: Final = 86_400_000_000
EMITTING: Final = 1_800_000
"""Sensors have events until then, by the clock of the world."""
HEALED: Final = 1_600_000
"""All faults are over by then."""
END: Final = 4_200_000

NEVER: Final = 2 * END
"""Some who die are not started again."""

STEPS: Final = (
    "Events",
    "Payload",
    "PaneTaken",
    "Beat",
    "Resume",
    "Safe",
    "PaneClosed",
    "Leader",
    "NodeFailed",
    "Election",
    "ElectionAck",
    "Lost",
    "Fetch",
    "Registered",
    "Roster",
)
"""Messages, sent or received, at which a child may die."""


@dataclass(frozen=True, slots=True)
class Options:
    guarantee: Guarantee = "exactly-once"
    family: str = "storm"


@dataclass(frozen=True, slots=True)
class Fault:
    """`kind`: crash, freeze, suspend, clock, cut, one-way, noise, slow or step, from `start` until
    before `end`. A clock is set by `amount`, and stays.
    A step is a crash of who sends or receives (`targets[1]`) a `targets[2]` for the `amount`-th
    time after `start`, be it one node or any (`targets[0]`); it is started again at `end`."""

    kind: Literal[
        "crash",
        "freeze",
        "suspend",
        "clock",
        "cut",
        "one-way",
        "noise",
        "slow",
        "step",
        "busy",
        "disk",
    ]
    start: int
    end: int
    targets: tuple[str, ...]
    amount: float = 0


@dataclass(frozen=True, slots=True)
class Emission:
    """What a sensor does: `joins` at that time, has events every `every`, up to `most` at once,
    and none from `silent` on; its clock is ahead."""

    name: str
    joins: int
    every: int
    most: int
    silent: int
    ahead: int
    options: SensorOptions
    keyed: bool
    stamps: bool = False
    """Its events have the root's time; otherwise that of its own clock."""
    rests: bool = False
    """It does not know when the next event comes, and says nothing while there is none."""
    speed: int = 0
    """So much faster than they happened it has events of `[0, EMITTING)`, a day ago; 0: it has
    them when they happen."""
    over: int = 2 * END
    """It has no more events from then on, leaves, and ends."""
    until: int = EMITTING
    """It has events until then, if it does not end before."""

    @property
    def is_orderly(self) -> bool:
        """Whether its events come in the order of time, so that none may be refused."""
        return self.stamps or self.speed > 0


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    options: Options
    root: RootOptions
    child: ChildOptions
    intermediate: IntermediateOptions
    groups: int
    children: tuple[tuple[str, ...], ...]
    intermediates: tuple[tuple[str, ...], ...]
    emissions: tuple[tuple[Emission, ...], ...]
    """By group."""
    queries: tuple[tuple[int, Query], ...]
    """With the time when they are registered."""
    faults: tuple[Fault, ...]
    clocks: dict[str, int]
    joiners: tuple[tuple[int, str], ...] = ()
    """Children that come to the first group when it has been formed, and when."""
    starts: dict[str, int] = field(default_factory=dict)
    """Nodes that do not come with the others, and when they do; NEVER for some."""
    set_back: dict[str, int] = field(default_factory=dict)
    """Nodes whose clock is so far behind when they are started again."""

    @property
    def is_lossless(self) -> bool:
        """Whether nothing may be lost: a member that has a copy is always left."""
        return self.options.family not in ("overflow", "storm")

    @property
    def root_begins(self) -> int:
        """The root's clock at the start, if events get their times from it."""
        return self.clocks.get("root", 0) if self.options.family == "clocks" else 0

    @property
    def absences(self) -> list[tuple[int, int]]:
        """When a sensor was away; with a margin, for clocks are not the same, and for what a child
        took with it that died shortly before, and that only this sensor had."""
        ends = {fault.targets[0]: fault.start for fault in self.faults if fault.kind == "crash"}
        joined = {each.name: each.joins for tier in self.emissions for each in tier}
        away = [
            (ends[name], joined[incarnation(name_of(name), 2)]) for name in ends if name in joined
        ]
        return [(start - 800_000, end + 250_000) for start, end in away]


def draw(seed: int, options: Options) -> Scenario:
    """Before what `timing` makes of it."""
    random = Random(f"edge/{options.guarantee}/{options.family}/{seed}")
    family = options.family
    groups = random.choice([1, 2, 3]) if family in ("tiers", "roots", "storm") else 1
    size = random.choice([2, 3, 3, 4])
    children = tuple(tuple(f"c{g}{n}" for n in range(size)) for g in range(groups))
    has_tiers = family == "tiers" or (family == "storm" and random.random() < 0.4)
    above = [random.choice([1, 2, 3, 4]) if has_tiers else 0 for _ in range(groups)]
    intermediates = tuple(tuple(f"i{g}{n}" for n in range(above[g])) for g in range(groups))
    spread = random.choice([2, 2, 3] if family == "growth" else [1, 1, 2])
    most = random.choice([1, 2, 3])
    root = RootOptions(
        plan=tuple(
            GroupPlan(f"g{place + 1}", children[place], _layers(intermediates[place], most))
            for place in range(groups)
        ),
        spread=spread,
        guarantee=options.guarantee,
        resend=100_000,
        patience=700_000,
    )
    beat = BeatOptions(period=60_000, threshold=8.0, pause=60_000, deviation=15_000)
    child = ChildOptions(
        beat=beat,
        sync=random.choice([40_000, 80_000, 150_000]),
        succession=random.choice(["bully", "ring", "spread"]),
        election_timeout=50_000,
        patience=80_000,
        resend=90_000,
        rejoin=random.choice([100_000, 400_000]),
        give_up=1_500_000,
    )
    emissions = tuple(
        tuple(
            _draw_emission(
                random, f"s{g}{n}", options, late=family in ("joins", "roots", "storm") and n > 0
            )
            for n in range(random.choice([2, 3] if family in ("joins", "roots") else [1, 2, 3]))
        )
        for g in range(groups)
    )
    joiners: tuple[tuple[int, str], ...] = ()
    if family == "growth":
        count = random.choice([1, 1, 2])
        joiners = tuple((random.randrange(250_000, 900_000), f"c0{size + n}") for n in range(count))
    lives: dict[str, int] = {}
    if family == "restarts":
        emissions, lives = _draw_lives(random, emissions)
    faults = _draw_faults(random, family, children, intermediates, emissions)
    faults += [Fault("crash", at, NEVER, (name,)) for name, at in lives.items()]
    faults += _draw_troubled_joins(random, children[0], joiners)
    nodes = [name for tier in (*children, *intermediates) for name in tier]
    clocks = {name: random.choice([0, 0, -300_000, 200_000, 2_000_000]) for name in nodes}
    return Scenario(
        seed,
        options,
        root,
        child,
        IntermediateOptions(beat=beat, resend=90_000),
        groups,
        children,
        intermediates,
        emissions,
        tuple(_draw_queries(random, options)),
        tuple(faults),
        clocks,
        joiners,
    )


def _layers(nodes: Sequence[str], most: int) -> tuple[tuple[str, ...], ...]:
    """From the bottom: full layers, the rest on top."""
    return tuple(tuple(nodes[at : at + most]) for at in range(0, len(nodes), most))


def _draw_lives(
    random: Random, emissions: Sequence[Sequence[Emission]]
) -> tuple[tuple[tuple[Emission, ...], ...], dict[str, int]]:
    """Each sensor in its first life and, of some, the second; and when the first ends."""
    ends: dict[str, int] = {}
    tiers = []
    for tier in emissions:
        found: list[Emission] = []
        for number, each in enumerate(tier):
            first = replace(each, name=incarnation(each.name, 1))
            found.append(first)
            if number == 0 or random.random() < 0.5:
                ends[first.name] = at = random.randrange(400_000, 1_100_000)
                back = at + random.choice([30_000, 150_000, 400_000])
                found.append(replace(each, name=incarnation(each.name, 2), joins=back))
        tiers.append(tuple(found))
    return tuple(tiers), ends


def _draw_troubled_joins(
    random: Random, group: Sequence[str], joiners: Sequence[tuple[int, str]]
) -> list[Fault]:
    """Around the time when a child joins another dies, or it does itself, or the root is not heard
    by one of the others. One of the group keeps what it has."""
    faults = []
    victim = random.choice(group)
    for at, name in joiners:
        if random.random() < 0.6:
            start = max(100_000, at + random.randrange(-150_000, 500_000))
            faults.append(Fault("crash", start, random.choice([HEALED, NEVER]), (victim,)))
        if random.random() < 0.3:
            start = at + random.randrange(1_000, 500_000)
            faults.append(Fault("crash", start, random.choice([start + 200_000, HEALED]), (name,)))
        if random.random() < 0.4:
            faults.append(
                Fault("one-way", at - 50_000, at + 300_000, ("root", random.choice(group)))
            )
    return faults


def _draw_emission(random: Random, name: str, options: Options, *, late: bool) -> Emission:
    overflows = options.family == "overflow"
    sensor = SensorOptions(
        partitioner=random.choice(["round-robin", "round-robin", "hash", "random", "primary"]),
        capacity=random.choice([20, 40]) if overflows else 4_096,
        on_full="drop" if overflows else "wait",
        frame=random.choice([7, 50, 200]),
        burst=4,
        pulse=40_000,
        retry=60_000,
        # Elsewhere it is the takers who tell the sensors.
        refresh=300_000 if options.family in ("growth", "storm") else 5_000_000,
        lateness=random.choice([0, 0, 30_000]),
    )
    return Emission(
        name,
        joins=random.randrange(300_000, 1_200_000) if late else 0,
        every=random.choice([10_000, 25_000, 60_000]),
        most=random.choice([3, 12, 40]),
        silent=random.choice([EMITTING, EMITTING, random.randrange(600_000, EMITTING)]),
        ahead=random.choice([0, 0, 20_000, -50_000]),
        options=sensor,
        keyed=True,
    )


def _draw_queries(random: Random, options: Options) -> list[tuple[int, Query]]:
    queries = [(0, Query("count", "count", 200_000, 200_000))]
    size, slide = random.choice([(300_000, 100_000), (250_000, 100_000), (100_000, 300_000)])
    if options.guarantee == "exactly-once":
        kind = random.choice(["sum", "mean", "variance", "range"])
        queries.append((0, Query("sliding", kind, size, slide)))
        queries.append((0, Query("keys", "sum", 400_000, 400_000, keyed=True)))
    else:
        queries.append((0, Query("sliding", "count", size, slide)))
    if options.family in ("joins", "roots", "storm"):
        at = random.randrange(500_000, 1_300_000)
        queries.append((at, Query("later", "count", 150_000, 150_000)))
    return queries


def _draw_faults(
    random: Random,
    family: str,
    children: Sequence[Sequence[str]],
    intermediates: Sequence[Sequence[str]],
    emissions: Sequence[Sequence[Emission]],
) -> list[Fault]:
    faults: list[Fault] = []
    if family in ("crashes", "joins", "overflow", "tiers") or (
        family in ("restarts", "roots") and random.random() < 0.5
    ):
        for group in children:
            # One of each group keeps what it has.
            most = len(group) - 1 if family == "crashes" else 1
            for name in random.sample(list(group), random.randint(1, most)):
                fault = during(random, "crash", (name,))
                for_ever = family == "crashes" and random.random() < 0.4
                faults.append(replace(fault, end=NEVER) if for_ever else fault)
    if family == "tiers":
        for tier in intermediates:
            for name in random.sample(list(tier), max(0, len(tier) - 1)):
                faults.append(during(random, "crash", (name,)))
    if family == "joins" and random.random() < 0.6:
        # Somebody does not hear of a sensor that comes, or of a query.
        start = emissions[0][-1].joins - 30_000
        end = min(HEALED, start + random.choice([300_000, 700_000]))
        faults.append(Fault("one-way", start, end, ("root", random.choice(children[0]))))
    if family == "roots":
        for start in random.sample(range(100_000, 1_300_000, 1_000), random.choice([1, 2, 3])):
            end = min(HEALED, start + random.choice([20_000, 200_000, 600_000]))
            faults.append(Fault("crash", start, end, ("root",)))
    if family in ("steps", "takers"):
        for group in children:
            victim, step, nth = "*", "Leader", 1
            if family == "steps":
                victim, step = random.choice(group), random.choice(STEPS)
                nth = random.choice([1, 2, 3, 8, 20])
            else:
                first = random.choice(group)
                start = random.randrange(400_000, 800_000)
                faults.append(Fault("crash", start, random.choice([HEALED, NEVER]), (first,)))
            if family == "steps" or len(group) > 2:
                way = "sends" if family == "takers" else random.choice(["sends", "receives"])
                start = random.randrange(200_000, 1_000_000) if family == "steps" else 400_000
                end = random.choice([HEALED, start + 700_000])
                faults.append(Fault("step", start, end, (victim, way, step), nth))
    if family in ("freezes", "storm"):
        for _ in range(random.choice([1, 2, 3])):
            faults.append(during(random, "freeze", (random.choice(random.choice(children)),)))
    if family in ("noise", "cuts", "storm"):
        for _ in range(random.choice([2, 4, 8])):
            faults.append(_draw_link(random, family, children, intermediates, emissions))
    if family == "storm":
        for _ in range(random.choice([1, 2, 3])):
            faults.append(during(random, "crash", (random.choice(random.choice(children)),)))
    return faults


def _draw_link(
    random: Random,
    family: str,
    children: Sequence[Sequence[str]],
    intermediates: Sequence[Sequence[str]],
    emissions: Sequence[Sequence[Emission]],
) -> Fault:
    place = random.randrange(len(children))
    group, above = children[place], intermediates[place]
    sensors = [emission.name for emission in emissions[place]]
    pairs = [(a, b) for a in group for b in group if a < b]
    pairs += [(a, b) for a in sensors for b in group]
    pairs += [(a, b) for a in group for b in (above or ("root",))]
    pairs += [(a, "root") for a in above]
    kinds: list[Literal["cut", "one-way", "noise", "slow"]] = ["noise", "slow"]
    if family != "noise":
        kinds = ["cut", "one-way", "one-way"] if family == "cuts" else [*kinds, "cut", "one-way"]
    kind = random.choice(kinds)
    pair = random.choice(pairs)
    amount = {"noise": random.choice([0.1, 0.3, 0.6]), "slow": random.choice([2e4, 1e5])}
    fault = during(random, kind, pair if random.random() < 0.5 else pair[::-1])
    return Fault(fault.kind, fault.start, fault.end, fault.targets, amount.get(kind, 0.0))


def during(
    random: Random,
    kind: Literal["crash", "freeze", "suspend", "cut", "one-way", "noise", "slow", "busy", "disk"],
    targets: tuple[str, ...],
) -> Fault:
    """Somewhere in the run, over before its end."""
    start = random.randrange(150_000, 1_300_000)
    length = random.choice([80_000, 300_000, 700_000, 3_000_000])
    return Fault(kind, start, min(HEALED, start + length), targets)
