"""One run of the edge in virtual time."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from holdfast.edge.machine import Child, Intermediate, Message, Root, Window
from holdfast.edge.machine.messages import Events, Payload
from holdfast.edge.machine.root import RootMemory, recall, remember
from simulator.edge.parties import Party, SensorParty
from simulator.edge.scenario import END, NEVER, Fault, Scenario
from simulator.network import Network
from simulator.parties import Process
from simulator.world import World

Slot = tuple[int, int, str]
"""Group, partition, sensor."""
LONGEST_PROBE: Final = 40_000
"""Microseconds until a node sees that an address refuses calls."""


class Simulation:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World()
        random = Random(f"edge-run/{scenario.seed}/{scenario.options}")
        self.network: Network[Message] = Network(self.world, random, 500, 4_000, self._deliver)
        self.windows: list[tuple[int, Window]] = []
        self.events: dict[Slot, dict[int, tuple[int, float, Any]]] = {}
        """All that sensors have sent, by offset."""
        self.most_panes = 0
        self._steps: list[tuple[Fault, list[int]]] = []
        self.parties: dict[str, Party] = {}
        self.sensors: dict[str, SensorParty] = {}
        self._groups: dict[str, int] = {}
        self._endings = Random(f"edge-endings/{scenario.seed}/{scenario.options}")
        self._memory: bytes | None = None
        """What the root has written down when it died: its process does so after every turn."""
        self._make_nodes()
        self._make_sensors()
        for at, query in scenario.queries:
            self.world.at(at, lambda query=query: self._ask(query))  # type: ignore[misc]
        for fault in scenario.faults:
            self._plan_fault(fault)

    @property
    def root(self) -> Root:
        machine = self.parties["root"].machine
        assert isinstance(machine, Root)
        return machine

    @property
    def children(self) -> list[Child]:
        """Those who are alive."""
        machines = (party.machine for party in self.parties.values() if party.process.is_up)
        return [each for each in machines if isinstance(each, Child)]

    def run(self) -> None:
        self.world.run(END)

    def _make_nodes(self) -> None:
        scenario = self.scenario

        def child(name: str) -> Any:
            return lambda now: Child(name, "root", scenario.child, life=now, now=now)

        def joiner(name: str) -> Any:
            return lambda now: Child(name, "root", scenario.child, life=now, now=now, group="g1")

        def intermediate(name: str) -> Any:
            return lambda now: Intermediate(name, "root", scenario.intermediate, life=now, now=now)

        self._add("root", self._make_root)
        self.parties["root"].after = self._drain
        # A group is formed when its last child registers: one group after the other.
        for place in range(scenario.groups):
            start = place * 60_000
            for number, name in enumerate(scenario.intermediates[place]):
                self.world.at(start + number, lambda n=name: self._add(n, intermediate(n)))  # type: ignore[misc]
            for number, name in enumerate(scenario.children[place]):
                at = scenario.starts.get(name, start + 20_000 + number)
                self.world.at(at, lambda n=name: self._add(n, child(n)))  # type: ignore[misc]

        for at, name in scenario.joiners:
            self.world.at(at, lambda n=name: self._add(n, joiner(n)))  # type: ignore[misc]

    def _make_root(self, now: int) -> Root:
        """As its process does: from what was written down before it died, if it did."""
        root = Root("root", self.scenario.root)
        if self._memory is not None:
            recall(root, msgspec.msgpack.decode(self._memory, type=RootMemory), now)
        return root

    def _make_sensors(self) -> None:
        for place, emissions in enumerate(self.scenario.emissions):
            for emission in emissions:
                random = Random(f"{self.scenario.seed}/{emission.name}")
                process = Process(self.world, emission.ahead)
                party = SensorParty(
                    emission,
                    self.scenario.children[place],
                    random,
                    process,
                    self.network,
                    self._watch,
                )
                self.sensors[emission.name] = party
                self.parties[emission.name] = party
                self._groups[emission.name] = place

    def _add(self, name: str, make: Any) -> None:
        process = Process(self.world, self.scenario.clocks.get(name, 0))
        back = self.scenario.set_back.get(name, 0)
        process.set_clock = lambda: process.ahead - back
        party = self.parties[name] = Party(name, make, process, self.network, self._watch)
        party.on_crash = lambda: self._end_connections(name)

    def _ask(self, query: Any) -> None:
        """Whoever asks does so again until the root is there."""
        root = self.parties["root"]
        if not root.process.is_up or root.full:
            self.world.at(self.world.now + 10_000, lambda: self._ask(query))
            return
        root.send(self.root.register_query(query, root.process.now))

    def _drain(self) -> None:
        self.windows += [(self.world.now, window) for window in self.root.drain()]

    def _deliver(self, sender: str, receiver: str, message: Message) -> None:
        party = self.parties.get(receiver)
        if party is not None:
            party.deliver(sender, message)

    def _watch(self, party: Party, way: str, message: Message) -> bool:
        if isinstance(message, Events) and way == "sends":
            self._note(message)
        child = party.machine
        if isinstance(message, Payload) and isinstance(child, Child) and child.place:
            self.most_panes = max(self.most_panes, child.slots.panes)
        for fault, left in self._steps:
            victim, when, step = fault.targets
            if victim not in (party.name, "*") or when != way or left[0] <= 0:
                continue
            if type(message).__name__ == step and isinstance(party.machine, Child):
                left[0] -= 1
                if not left[0]:
                    end = max(fault.end, self.world.now + 100_000)
                    self.world.at(end, party.restart)
                    return True
        return False

    def _note(self, message: Events) -> None:
        slot = self._groups[message.sensor], message.partition, message.sensor
        known = self.events.setdefault(slot, {})
        keys = message.keys or [None] * len(message.times)
        rows = zip(message.times.tolist(), message.values.tolist(), keys, strict=True)
        for number, row in enumerate(rows):
            known.setdefault(message.first + number, row)

    def _plan_fault(self, fault: Fault) -> None:
        match fault.kind:
            case "crash":
                name = fault.targets[0]
                self.world.at(fault.start, lambda: self._crash(name))
                if fault.end < NEVER:
                    self.world.at(fault.end, lambda: self.parties[name].restart())
            case "freeze":
                process = fault.targets[0]
                self.world.at(fault.start, lambda: self.parties[process].process.freeze(fault.end))
            case "suspend":
                process = fault.targets[0]
                self.world.at(fault.start, lambda: self.parties[process].process.suspend(fault.end))
            case "busy":
                one, other = fault.targets
                self.world.at(fault.start, lambda: self._be_busy(one, other, 1))
                self.world.at(fault.end, lambda: self._be_busy(one, other, -1))
            case "disk":
                self.world.at(fault.start, self._fill_disk)
                self.world.at(fault.end, lambda: self.parties["root"].make_room())
            case "clock":
                self.world.at(fault.start, lambda: self._set_clock(fault))
            case "step":
                self.world.at(fault.start, lambda: self._steps.append((fault, [int(fault.amount)])))
            case _:
                self.world.at(fault.start, lambda: self._trouble(fault, 1))
                self.world.at(fault.end, lambda: self._trouble(fault, -1))

    def _crash(self, name: str) -> None:
        if name == "root" and not self.parties[name].is_paused:
            self._memory = msgspec.msgpack.encode(remember(self.root), enc_hook=_plain)
        self.parties[name].crash()

    def _end_connections(self, name: str) -> None:
        """The kernel of a process that dies closes its connections, and its address refuses calls:
        its peers see that within milliseconds. When a whole machine dies they see nothing."""
        if self._endings.random() < 0.5:
            return
        for peer, party in self.parties.items():
            if peer != name and isinstance(party.machine, Child):
                delay = self._endings.randrange(1, LONGEST_PROBE)
                self.world.at(self.world.now + delay, lambda p=party: self._probe(p, name))  # type: ignore[misc]

    def _probe(self, party: Party, name: str) -> None:
        if self.parties[name].process.is_up or self.network.trouble(party.name, name).cuts:
            return

        def tell() -> None:
            machine = party.machine
            if isinstance(machine, Child):
                party.send(machine.ended(name, party.now))

        # A process that stands still learns of it when it goes on; the other may be back by then.
        party.process.do(tell)

    def _be_busy(self, one: str, other: str, by: int) -> None:
        self.parties[one].busy[other] += by

    def _fill_disk(self) -> None:
        """What the root has written down is from now on all that a later start of it finds."""
        root = self.parties["root"]
        if root.process.is_up and not root.is_paused:
            self._memory = msgspec.msgpack.encode(remember(self.root), enc_hook=_plain)
        root.full += 1

    def _set_clock(self, fault: Fault) -> None:
        self.parties[fault.targets[0]].process.ahead += int(fault.amount)

    def _trouble(self, fault: Fault, sign: int) -> None:
        one, other = fault.targets
        ways = [(one, other)] if fault.kind == "one-way" else [(one, other), (other, one)]
        for way in ways:
            trouble = self.network.trouble(*way)
            if fault.kind == "noise":
                trouble.loss = max(0.0, round(trouble.loss + sign * fault.amount, 3))
                trouble.repeats = trouble.loss
            elif fault.kind == "slow":
                trouble.delay += sign * int(fault.amount)
            else:
                trouble.cuts += sign


def _plain(value: Any) -> Any:
    return value.item()
