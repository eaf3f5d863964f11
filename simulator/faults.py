"""What goes wrong in a simulation, and when: drawn from a seed, applied in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from simulator.network import Network
from simulator.parties import ClientParty, NodeParty, SourceParty, TwinParty
from simulator.world import World


class FaultKind(Enum):
    """What can go wrong."""

    CUT = "cut"
    """Nothing passes between two parties."""
    ONE_WAY = "one-way cut"
    """Nothing passes from the first to the second."""
    PARTITION = "partition"
    """Nothing passes between these parties and all others."""
    NOISE = "noise"
    """Messages between two parties are lost or come twice."""
    SLOW = "slow link"
    """Messages between two parties are late, and overtake each other."""
    FLAP = "flapping link"
    """A link is cut and healed again and again."""
    CRASH = "crash"
    """A process dies and comes back: a node with nothing, a source with its log."""
    FREEZE = "freeze"
    """A process stands still."""
    STAGE = "stage restart"
    """The stage of a node loses what it did since it was saved."""
    CLIENT = "client restart"
    """A client dies and comes back; it knows what final rows it has."""
    REBOOT = "reboot"
    """A node dies and comes back with its disk: what was saved, and what it has published."""
    STEP = "clock set"
    """The clocks of the machines of these parties are set: so far ahead they are from then on."""
    SUSPEND = "suspension"
    """The machines of these parties stand still."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of these, from `start` until before `end`."""

    kind: FaultKind
    start: int
    end: int
    targets: tuple[str, ...]
    amount: float = 0

    def __str__(self) -> str:
        span = f"{self.start / 1e6:.3f} to {self.end / 1e6:.3f} s"
        amount = f" ({self.amount:g})" if self.amount else ""
        return f"{self.kind.value}{amount} of {', '.join(self.targets)}, {span}"


@dataclass(frozen=True, slots=True)
class Breakable:
    """What may be broken: pairs of parties that talk, and processes by what they survive."""

    links: tuple[tuple[str, str], ...]
    parties: tuple[str, ...]
    """All but the clients."""
    crashable: tuple[str, ...]
    nodes: tuple[str, ...]
    clients: tuple[str, ...] = ()


def draw_faults(
    random: Random,
    breakable: Breakable,
    *,
    count: int,
    begin: int,
    end: int,
    shortest: int,
    longest: int,
    kinds: Sequence[FaultKind],
) -> list[Fault]:
    """So many faults between `begin` and `end`, short ones and long ones."""
    faults = []
    for _ in range(count):
        duration = int(shortest * (longest / shortest) ** random.random() ** 0.6)
        start = random.randrange(begin, max(begin + 1, end - duration))
        kind = random.choice([k for k in kinds if _targets_of(k, breakable)])
        targets = random.choice(_targets_of(kind, breakable))
        if kind is FaultKind.PARTITION:
            size = random.randrange(1, len(breakable.parties))
            targets = tuple(sorted(random.sample(breakable.parties, size)))
        if random.random() < 0.5:
            targets = targets[::-1]
        amount = 0.0
        if kind is FaultKind.NOISE:
            amount = random.choice([0.05, 0.2, 0.5])
        elif kind is FaultKind.SLOW:
            amount = random.choice([20_000, 100_000, 400_000])
        elif kind is FaultKind.FLAP:
            amount = random.choice([30_000, 150_000, 400_000])
        faults.append(Fault(kind, start, min(end, start + duration), targets, amount))
    return sorted(faults, key=lambda fault: fault.start)


def _targets_of(kind: FaultKind, breakable: Breakable) -> Sequence[tuple[str, ...]]:
    match kind:
        case FaultKind.CRASH:
            return [(name,) for name in breakable.crashable]
        case FaultKind.FREEZE:
            return [(name,) for name in breakable.parties]
        case FaultKind.STAGE | FaultKind.REBOOT:
            return [(name,) for name in breakable.nodes]
        case FaultKind.CLIENT:
            return [(name,) for name in breakable.clients]
        case FaultKind.PARTITION:
            return [()] if len(breakable.parties) > 1 else []
        case _:
            return breakable.links


def apply_faults(
    faults: Sequence[Fault],
    world: World,
    network: Network,
    nodes: Mapping[str, NodeParty],
    proxies: Mapping[str, SourceParty | TwinParty],
    clients: Mapping[str, ClientParty],
) -> None:
    """Plan all of them."""
    applier = _Applier(world, network, nodes, proxies, clients)
    for fault in faults:
        begin, heal = applier.actions(fault)
        world.at(fault.start, begin)
        world.at(fault.end, heal)


@dataclass(frozen=True)
class _Applier:
    world: World
    network: Network
    nodes: Mapping[str, NodeParty]
    proxies: Mapping[str, SourceParty | TwinParty]
    clients: Mapping[str, ClientParty]

    def actions(self, fault: Fault) -> tuple[Callable[[], None], Callable[[], None]]:
        """What to do when it begins and when it ends."""
        match fault.kind:
            case FaultKind.CRASH | FaultKind.CLIENT:
                party = self._party(fault.targets[0])
                return party.crash, lambda: None if party.process.is_up else party.restart()
            case FaultKind.REBOOT:
                node = self.nodes[fault.targets[0]]
                return node.crash, lambda: None if node.process.is_up else node.reboot()
            case FaultKind.FREEZE:
                process = self._party(fault.targets[0]).process
                return lambda: process.freeze(fault.end), lambda: None
            case FaultKind.SUSPEND:
                return lambda: self._suspend(fault), lambda: None
            case FaultKind.STEP:
                return lambda: self._set_clocks(fault), lambda: None
            case FaultKind.STAGE:
                node = self.nodes[fault.targets[0]]
                return lambda: node.process.do(node.restart_stage), lambda: None
            case FaultKind.FLAP:
                return lambda: self._flap(fault, cut=True), lambda: None
            case _:
                return lambda: self._change(fault, 1), lambda: self._change(fault, -1)

    def _suspend(self, fault: Fault) -> None:
        for name in fault.targets:
            self._party(name).process.suspend(fault.end)

    def _set_clocks(self, fault: Fault) -> None:
        for name in fault.targets:
            self._party(name).process.ahead = int(fault.amount)

    def _party(self, name: str) -> NodeParty | SourceParty | TwinParty | ClientParty:
        if name in self.clients:
            return self.clients[name]
        return self.nodes[name] if name in self.nodes else self.proxies[name]

    def _directions(self, fault: Fault) -> list[tuple[str, str]]:
        if fault.kind is FaultKind.PARTITION:
            everybody = {*self.proxies, *self.nodes, *self.clients}
            inside, outside = fault.targets, everybody - set(fault.targets)
            pairs = [(a, b) for a in inside for b in sorted(outside)]
        else:
            pairs = [(fault.targets[0], fault.targets[1])]
        if fault.kind is FaultKind.ONE_WAY:
            return pairs
        return pairs + [(b, a) for a, b in pairs]

    def _change(self, fault: Fault, sign: int) -> None:
        for pair in self._directions(fault):
            trouble = self.network.trouble(*pair)
            if fault.kind is FaultKind.NOISE:
                trouble.loss = max(0.0, round(trouble.loss + sign * fault.amount, 3))
                trouble.repeats = trouble.loss
            elif fault.kind is FaultKind.SLOW:
                trouble.delay += sign * int(fault.amount)
            else:
                trouble.cuts += sign

    def _flap(self, fault: Fault, *, cut: bool) -> None:
        """Cut, and half a period later heal, until the fault ends."""
        for pair in self._directions(fault):
            self.network.trouble(*pair).cuts += 1 if cut else -1
        if cut or self.world.now < fault.end:
            until = min(fault.end, self.world.now + int(fault.amount))
            self.world.at(max(until, self.world.now + 1), lambda: self._flap(fault, cut=not cut))
