"""Sources, replicas and a sink in virtual time, on a bad network, with deaths at chosen steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from holdfast.pipeline.machine.sharing import (
    Message,
    Replica,
    Send,
    Sink,
    Source,
    Step,
    TupleId,
)
from simulator.sharing.party import DeathError, Party
from simulator.sharing.scenario import (
    Freeze,
    Kill,
    Role,
    Scenario,
    When,
    draw_routing,
    expected,
    process,
)
from simulator.world import World

LATENCY = 1_000
LIVES = 1_000
"""Between two starts: a replica that is fenced gives itself the next one."""


class SharingWorld:
    """One run. `got`: how often each tuple has come to the sink."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World()
        self.random = Random(f"{scenario.seed}/sharing")
        self.got: Counter[TupleId] = Counter()
        self.wrong: list[str] = []
        self.truth: dict[TupleId, int] = {}
        self.emitted = 0
        self.deaths = 0
        self.largest = 0
        """The most records a shared table has held."""
        self._lost = 0
        self._doubtful = 0
        self._refused = 0
        self._step_kill = scenario.step_kill
        self._speaker = ""
        plan, rules = scenario.plan, scenario.rules
        self.parties: dict[str, Party] = {}
        self.sources: list[str] = []
        for name, operator in plan.operators.items():
            for replica in operator.replicas:
                machine: Replica | Source | Sink
                if plan.is_source(name):
                    machine = Source(replica, plan, rules, routing=draw_routing(scenario, replica))
                    self.sources.append(replica)
                elif not operator.below:
                    machine = Sink(replica, plan, rules)
                else:
                    machine = self._replica(replica, 0)
                self.parties[replica] = Party(replica, machine)

    # What came of it.

    @property
    def replicas(self) -> list[Replica]:
        found = [each.machine for each in self.parties.values() if each.is_up]
        return [each for each in found if isinstance(each, Replica)]

    @property
    def lost(self) -> int:
        """What the replicas say is lost, the dead ones too."""
        return self._lost + sum(each.desk.lost for each in self.replicas)

    @property
    def doubtful(self) -> int:
        """What they do not know of whether it went on."""
        return self._doubtful + sum(each.desk.doubtful for each in self.replicas)

    @property
    def refused(self) -> int:
        ends = [each.machine for each in self.parties.values()]
        sinks = sum(each.refused for each in ends if isinstance(each, Sink))
        return self._refused + sum(each.refused for each in self.replicas) + sinks

    # Running.

    def run(self) -> None:
        for at, name in enumerate(self.sources):
            self.world.at(10_000 + at, partial(self._emit, name))
        for name in self.parties:
            self.world.at(0, partial(self._plan_wake, name))
        for fault in self.scenario.faults:
            if isinstance(fault, Kill):
                self.world.at(fault.at, partial(self.kill, fault.replica, fault.back))
            else:
                self.world.at(fault.at, partial(self._freeze, fault))
        self.world.run(self.scenario.end)
        for _ in range(10):
            # Small tables are slow: what moves gets its time, and what is stuck stays so.
            if self.is_quiet:
                break
            self.world.run(self.world.now + 3_000_000)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way, and all is forgotten."""
        if self.scenario.is_once:
            return True
        return all(
            each.members.is_active and not each.desk.is_busy and not len(each.desk.table)
            for each in self.replicas
        )

    def _emit(self, name: str) -> None:
        party = self.parties[name]
        source = party.machine
        assert isinstance(source, Source)
        if source.has_room:
            value = source.sent + 1
            self.truth.update(expected(self.scenario.plan, name, value, value))
            self.emitted += 1
            self._send(party, source.emit(value, self.world.now))
            self._plan_wake(name)
        if source.sent < self.scenario.tuples:
            pause = self.random.uniform(0.2, 1.8) * self.scenario.pace
            self.world.at(self.world.now + pause, partial(self._emit, name))

    def _deliver(self, sender: str, receiver: str, message: Message) -> None:
        party = self.parties[receiver]
        if not party.is_up:
            return
        if party.queue is not None:
            party.queue.append((sender, message))
            return
        self._speaker = sender
        self._act(party, partial(party.machine.receive, sender, message, self.world.now))

    def _act(self, party: Party, action: Any) -> None:
        """Let a machine do something; it may die of it."""
        try:
            sends = action()
        except DeathError:
            self.kill(party.name, self._back)
            return
        if isinstance(party.machine, Sink):
            self._take(party.machine)
        if party.dies_after is not None:
            party_sends = sends[:1] if party.dies_after is When.BETWEEN else sends
            party.dies_after = None
            self._send(party, party_sends)
            self.kill(party.name, self._back)
            return
        self._send(party, sends)
        if isinstance(party.machine, Replica):
            self.largest = max(self.largest, len(party.machine.desk.table))
        self._plan_wake(party.name)

    def _take(self, sink: Sink) -> None:
        for tuple_id, value in sink.drain():
            self.got[tuple_id] += 1
            if self.truth.get(tuple_id) != value:
                self.wrong.append(f"{tuple_id} came with {value}")

    def _send(self, party: Party, sends: Sequence[Send]) -> None:
        weather = self.scenario.weather
        is_bad = self.world.now < weather.calm
        for send in sends:
            if is_bad and self.random.random() < weather.loss:
                continue
            times = 2 if is_bad and self.random.random() < weather.repeats else 1
            for _ in range(times):
                late = self.random.random() * weather.jitter
                if is_bad and self.random.random() < 0.02:
                    late *= 20
                self.world.at(
                    self.world.now + LATENCY + late,
                    partial(self._deliver, party.name, send.to, send.message),
                )

    def _plan_wake(self, name: str) -> None:
        party = self.parties[name]
        due = party.machine.due(self.world.now)
        if due is None or not party.is_up:
            return
        due = max(due, self.world.now)
        if party.woken_at is None or due < party.woken_at:
            party.woken_at = due
            self.world.at(due, partial(self._wake, name, party.machine, due))

    def _wake(self, name: str, machine: object, planned: int) -> None:
        party = self.parties[name]
        if party.machine is not machine or not party.is_up or party.woken_at != planned:
            return
        party.woken_at = None
        if party.queue is None:
            self._act(party, partial(party.machine.wake, self.world.now))

    # Faults.

    def kill(self, name: str, back: int | None = None) -> None:
        party = self.parties[name]
        if not party.is_up or not isinstance(party.machine, Replica):
            return
        self.deaths += 1
        self._lost += party.machine.desk.lost
        self._doubtful += party.machine.desk.doubtful
        self._refused += party.machine.refused
        party.is_up = False
        party.queue = None
        party.woken_at = None
        if back is not None:
            self.world.at(self.world.now + back, partial(self._restart, name))

    def _restart(self, name: str) -> None:
        party = self.parties[name]
        party.starts += 1
        party.machine = self._replica(name, party.starts * LIVES)
        party.is_up = True
        self._plan_wake(name)

    def _freeze(self, fault: Freeze) -> None:
        party = self.parties[fault.replica]
        if party.is_up and party.queue is None:
            party.queue = []
            self.world.at(self.world.now + fault.length, partial(self._thaw, party, party.machine))

    def _thaw(self, party: Party, machine: object) -> None:
        if party.machine is not machine or party.queue is None:
            return
        queue, party.queue = party.queue, None
        for sender, message in queue:
            self._deliver(sender, party.name, message)
        self._plan_wake(party.name)

    @property
    def _back(self) -> int | None:
        return None if self.scenario.step_kill is None else self.scenario.step_kill.back

    def _watch(self, name: str, step: Step, tuple_id: TupleId) -> None:
        fault = self._step_kill
        if fault is None or step is not fault.step or tuple_id.number != fault.number:
            return
        if self.scenario.plan.of(name) != fault.operator:
            return
        self._step_kill = None
        if fault.role is not Role.WORKER:
            victim = self._victim(name, fault.role)
            if victim is not None:
                self.kill(victim, fault.back)
        elif fault.when is When.BEFORE:
            raise DeathError
        else:
            self.parties[name].dies_after = fault.when

    def _victim(self, name: str, role: Role) -> str | None:
        replica = self.parties[name].machine
        assert isinstance(replica, Replica)
        if role is Role.COLLEAGUE:
            return min(replica.members.colleagues(self.world.now), default=None)
        plan = self.scenario.plan
        above = plan.above(plan.of(name))[0]
        if plan.is_source(above):
            return replica.members.books[plan.below(plan.of(name))[0]].sitter(0)
        return self._speaker if plan.of(self._speaker) == above else plan.replicas(above)[0]

    # Making replicas.

    def _replica(self, name: str, life: int) -> Replica:
        plan = self.scenario.plan
        return Replica(
            name,
            plan,
            partial(process, plan.of(name)),
            self.scenario.rules,
            routing=draw_routing(self.scenario, name),
            life=life,
            now=self.world.now,
            watch=partial(self._watch, name),
        )
