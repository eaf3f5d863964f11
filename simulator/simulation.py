"""One run of a scenario: everybody in their places, faults applied, and all that was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from holdfast.pipeline.gates.sample import KEY_BYTES, is_drawn
from holdfast.pipeline.machine.client import Client, Shown
from holdfast.pipeline.machine.commands import Command, Install, Place
from holdfast.pipeline.machine.findings import Findings
from holdfast.pipeline.machine.messages import Heartbeat, Send, Subscribe
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import Intake, SwitchIntake
from holdfast.pipeline.machine.vote_subscription import stream_key
from simulator.diagram import StagePlan
from simulator.faults import apply_faults
from simulator.liars import miscalculating, tampering
from simulator.network import Carried, Network
from simulator.notes import Note, Notes
from simulator.parties import ClientParty, NodeParty, Process, SourceParty, Tap, TwinParty
from simulator.parties.shelf import MemoryShelf
from simulator.scenario import COMPARING, HEARTBEAT, MISSED, Reading, Scenario
from simulator.sources import Sources
from simulator.standby import Hand, Has, Propose
from simulator.voting import EVERY, vote_intake
from simulator.world import World

__all__ = ["Note", "Simulation"]

LATENCY: Final = 2_000
SOON: Final = 37_000
"""Before the end: longer than a word is on its way, and no part of a bucket."""
REMEMBERED: Final = 80
"""So many buckets a stage can calculate again."""


class Simulation:
    """The parties of a scenario. Every stream of every replica is tapped, over links that never
    fail, so that the lines of each can be checked."""

    def __init__(self, scenario: Scenario, note: Note | None = None) -> None:
        """`note` is told of all that a person would like to know: when, about whom, what."""
        self.scenario = scenario
        self._note = note
        self.world = World()
        self.network = Network(
            self.world, Random(f"{scenario.seed}/network"), LATENCY, LATENCY, self._deliver
        )
        self.states: list[tuple[int, str, State]] = []
        """When each node came into which state."""
        self.reconciling: set[str] = set()
        self.turns: list[tuple[int, frozenset[str]]] = []
        """Which nodes reconciled in turns with their peers, from when on."""
        self.findings: dict[str, list[Findings]] = {}
        """What the gates of each node found out about replicas, life by life."""
        self.samples: dict[str, list[Callable[[int], bool]]] = {}
        """Which buckets the gates of each node sample, life by life."""
        self.told: set[tuple[str, str, int]] = set()
        """Lies of those who avoid what they take for samples: who told whom, about which bucket."""
        self.most_held: dict[str, int] = {}
        """The most that the gate of each node, and each of its lines, ever held: buckets, and of
        gates bytes too."""
        self.unread: list[tuple[str, str, str]] = []
        """Who sends which stream to whom in the end, though it is not read from there, and did so
        before too: one who is left hears of it a little later."""
        self.broken_promises: list[str] = []
        """What nodes acknowledged before it was safe, or took over in part."""
        self.drops_previews = False
        """Whether a gate had no room for all previews that were read."""
        self.subscribed: Counter[tuple[str, str, str]] = Counter()
        """How often each node has asked whom for which stream."""
        sources = Sources(scenario, self._readers, self._process, self.network)
        self.sources = sources.takers
        """Who takes in the readings of each source."""
        self.proxies = sources.proxies
        """Who publishes them."""
        self.nodes = {
            name: self._node(plan, name)
            for plan in scenario.plans
            for name in scenario.replicas[plan.name]
        }
        self.clients = {stream: self._client(stream) for stream in scenario.diagram.outputs}
        self.taps = {
            (name, stream): self._tap(name, stream)
            for stream, names in scenario.makers.items()
            for name in names
            if name in self.nodes or stream in scenario.twins
        }
        self._parties: dict[str, SourceParty | TwinParty | NodeParty | ClientParty | Tap] = {
            **self.proxies,
            **self.nodes,
            **{client.name: client for client in self.clients.values()},
            **{tap.name: tap for tap in self.taps.values()},
        }
        clients = {client.name: client for client in self.clients.values()}
        apply_faults(scenario.faults, self.world, self.network, self.nodes, self.proxies, clients)
        if note is not None:
            self._take_notes(Notes(self.world, note))
        for reading in scenario.readings:
            self.world.at(reading.time, partial(self._read, reading))

    def _take_notes(self, notes: Notes) -> None:
        for fault in self.scenario.faults:
            notes.of_fault(fault)
        for client in self.clients.values():
            notes.of_client(client)
        for node in self.nodes.values():
            notes.of_node(node)
        notes.of_proxies(self.proxies)

    def run(self) -> Simulation:
        self.world.run(self.scenario.until - SOON)
        soon = set(self._unread())
        self.world.run(self.scenario.until)
        self.unread = sorted(soon & set(self._unread()))
        return self

    def _unread(self) -> Iterator[tuple[str, str, str]]:
        """Who sends which stream to whom, though it is not read from there."""
        for stream, makers in self.scenario.makers.items():
            for reader, intake in self.intakes_of(stream).items():
                if not isinstance(intake, SwitchIntake):
                    continue
                for maker in set(makers) - intake.sources:
                    line = self.line_of(maker, stream)
                    if line.progress(reader, State.STABLE).subscription >= 0:
                        yield maker, stream, reader

    def _deliver(self, sender: str, receiver: str, message: Carried) -> None:
        party = self._parties[receiver]
        if isinstance(party, TwinParty):
            party.deliver(sender, message)
        else:
            assert not isinstance(message, Propose | Has | Hand)
            party.deliver(sender, message)

    def _read(self, reading: Reading) -> None:
        self.sources[reading.source].read(reading.key, reading.value, reading.at)

    def _process(self, name: str) -> Process:
        scenario = self.scenario
        process = Process(
            self.world, scenario.ahead.get(name, 0), counts_sleep=scenario.counts_sleep
        )
        if scenario.clocks_step and name in scenario.ahead:
            random = Random(f"{scenario.seed}/clock/{name}")
            process.set_clock = partial(random.randrange, scenario.clocks)
        return process

    def _readers(self, stream: str) -> tuple[str, ...]:
        readers = [
            name
            for plan in self.scenario.plans
            if stream in plan.inputs
            for name in self.scenario.replicas[plan.name]
        ]
        if stream in self.scenario.diagram.outputs:
            readers.append(f"client:{stream}")
        return tuple(readers)

    def _node(self, plan: StagePlan, name: str) -> NodeParty:
        scenario = self.scenario
        settings = scenario.settings[plan.name]
        place = Place(
            name,
            tuple(peer for peer in scenario.replicas[plan.name] if peer != name),
            {stream: scenario.makers[stream] for stream in plan.inputs},
            {output.stream: output.reach for output in plan.outputs},
            {
                output.stream: (*self._readers(output.stream), f"tap:{name}:{output.stream}")
                for output in plan.outputs
            },
            retentions=scenario.retentions,
            span=plan.span,
        )

        def make(now: int, lost: bool) -> Node:
            intakes = self._intakes(plan, name)
            return Node(place, settings, now, lost=lost, intakes=intakes, shelf=MemoryShelf())

        party = NodeParty(
            name,
            plan,
            make,
            self._process(name),
            self.network,
            cost=scenario.cost,
            save_every=scenario.save_every,
            remember=REMEMBERED if scenario.options.policy == "vote" else 0,
            tamper=tampering(
                scenario.seed,
                scenario.liars,
                name,
                scenario.size,
                EVERY,
                lambda reader, bucket: self.told.add((name, reader, bucket)),
            ),
            miscalculate=miscalculating(scenario.seed, scenario.liars, name),
        )
        party.observe = self._observer(party)
        party.observers.append(partial(self._check_promises, party))
        return party

    def _intakes(self, plan: StagePlan, name: str) -> dict[str, Intake]:
        """Those that compare replicas; the node makes the others itself."""
        if self.scenario.options.policy not in COMPARING:
            return {}
        intakes: dict[str, Intake] = {}
        compared = self.scenario.replicas["s1"]
        for stream in plan.inputs:
            if self.scenario.makers[stream] == compared:
                life = len(self.findings.get(name, ()))
                secret = Random(f"{self.scenario.seed}/samples/{name}/{life}").randbytes(KEY_BYTES)
                intake = vote_intake(
                    self.scenario.options.policy, stream, self.scenario.makers[stream], secret
                )
                self.samples.setdefault(name, []).append(
                    partial(is_drawn, stream_key(secret, stream), EVERY)
                )
                self.findings.setdefault(name, []).append(intake.findings)
                intakes[stream] = intake
        return intakes

    def _observer(self, party: NodeParty) -> Callable[[], None]:
        last: list[State] = []

        def observe() -> None:
            state = party.node.state
            if party.node.is_reconciling != (party.name in self.reconciling):
                self.reconciling ^= {party.name}
                self.turns.append((self.world.now, frozenset(self.reconciling)))
            if party.node.working is not None:
                self._note_memory(party)
            self._note_most(f"{party.name} bytes", party.node.gate.held_in_memory)
            self.drops_previews |= party.node.gate.previews_dropped > 0
            if party.gives_up_a_copy:
                at = f"{party.name}, at {self.world.now / 1e6:.3f} s"
                self.broken_promises.append(f"{at}: gives up a state that a peer copies for it")
            if not last or last[0] is not state:
                last[:] = [state]
                self.states.append((self.world.now, party.name, state))
                if self._note is not None:
                    self._note(self.world.now, party.name, state.name)

        return observe

    def _check_promises(self, party: NodeParty, command: Command) -> None:
        """An acknowledgement follows persistence, and a copied line ends where the state does."""
        at = f"{party.name}, at {self.world.now / 1e6:.3f} s"
        match command:
            case Send(to, Subscribe(stream)):
                self.subscribed[party.name, to, stream] += 1
            case Send(_, Heartbeat(acks)):
                for stream, end in acks.items():
                    if end > party.saved_at * self.scenario.size:
                        self.broken_promises.append(f"{at}: acknowledges {stream} too early")
            case Install(bucket):
                end = bucket * self.scenario.size
                for stream, line in party.node.lines.items():
                    kept = list(line.segments.since(0))
                    if kept and kept[-1].end < end > party.node.consistent_from:
                        self.broken_promises.append(f"{at}: lacks the end of {stream} as copied")

    def _note_memory(self, party: NodeParty) -> None:
        held = {party.name: party.node.gate.buffered} | {
            f"{party.name}:{stream}": len(line.segments)
            for stream, line in party.node.lines.items()
        }
        for name, count in held.items():
            self._note_most(name, count)

    def _note_most(self, name: str, held: int) -> None:
        self.most_held[name] = max(self.most_held.get(name, 0), held)

    def _client(self, stream: str) -> ClientParty:
        name = f"client:{stream}"
        kept = self.scenario.retentions.get(stream)

        def make(position: int) -> Client:
            return Client(
                stream,
                self.scenario.makers[stream],
                heartbeat=HEARTBEAT,
                missed=MISSED,
                may_skip=kept is not None and kept.convergent,
                position=position,
            )

        return ClientParty(name, make, self._process(name), self.network)

    def _tap(self, replica: str, stream: str) -> Tap:
        name = f"tap:{replica}:{stream}"
        return Tap(name, stream, replica, self._process(name), self.network)

    def line_of(self, maker: str, stream: str) -> Line:
        """What a replica or proxy publishes of a stream."""
        if maker in self.nodes:
            return self.nodes[maker].node.lines[stream]
        proxy = self.proxies[maker]
        return proxy.line if isinstance(proxy, TwinParty) else proxy.source.line

    def intakes_of(self, stream: str) -> dict[str, Intake]:
        """Those who read a stream, and how."""
        readers = {name: each.node.inputs.intakes for name, each in self.nodes.items()}
        intakes = {name: each[stream] for name, each in readers.items() if stream in each}
        if stream in self.clients:
            client = self.clients[stream]
            intakes[client.name] = client.client.intake
        return intakes

    def shown_to(self, stream: str) -> list[tuple[int, Shown]]:
        """What the client of a stream was shown, and when."""
        return self.clients[stream].shown
