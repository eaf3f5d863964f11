"""Load managers in virtual time, with tasks that run, on a bad network, dying at chosen steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from holdfast.protocol.contracts import (
    SECOND,
    Books,
    Command,
    Contracts,
    Epoch,
    Fence,
    Halt,
    Keep,
    Letter,
    Load,
    LoanId,
    Manager,
    Persist,
    Prepare,
    Record,
    Resume,
    Send,
    Start,
    Stop,
)
from holdfast.protocol.contracts.letters import NONE, Mark
from holdfast.protocol.contracts.records import Lent, Restated
from holdfast.sim.federation.fairness import losses
from holdfast.sim.federation.readers import Readers
from holdfast.sim.federation.scenario import BUCKET, Change, Crash, Scenario
from holdfast.sim.world import World

__all__ = ["FederationWorld", "Party"]

LATENCY = 1_000
CALM_JITTER = 2_000
STALE = 5 * SECOND


@dataclass(slots=True)
class Run:
    """A task that runs at a participant, follows, or is halted."""

    task: str
    epoch: Epoch
    bucket: int | None = None
    """None: it only follows."""
    is_halting: bool = False
    is_halted: bool = False
    in_hand: bool = False


@dataclass(slots=True)
class Party:
    name: str
    manager: Manager
    journal: list[Record] = field(default_factory=list)
    letters: list[tuple[str, str, Letter]] = field(default_factory=list)
    """Those that bind, sent and received."""
    runs: dict[tuple[str, Epoch], Run] = field(default_factory=dict)
    is_up: bool = True
    life: int = 0
    steps: int = 0
    woken_at: int | None = None


class FederationWorld:
    """One run. `computed`: who has computed each bucket of each task."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.world = World()
        self.random = Random(f"{scenario.seed}/federation")
        self.problems: list[str] = []
        self.deaths = 0
        self.sent: Counter[str] = Counter()
        self.moves = 0
        self.computed: dict[tuple[str, int], list[tuple[str, Epoch]]] = defaultdict(list)
        self.loads: dict[str, Load] = {}
        self.readers: dict[str, Readers] = {}
        self.parties: dict[str, Party] = {}
        self._step_crash = scenario.step_crash
        self._incoming: tuple[str, str, Letter] | None = None
        for name, participant in scenario.participants.items():
            self.parties[name] = Party(name, self._manager(name, [], 0, {}))
            for task in participant.tasks:
                self.readers[task.id] = Readers()
                self.loads[task.id] = task.load

    def _manager(
        self, name: str, journal: Sequence[Record], now: int, bound: dict[str, Mark]
    ) -> Manager:
        contracts = [each for each in self.scenario.contracts if name in (each.buyer, each.seller)]
        cost = self.scenario.participants[name].cost
        rules = self.scenario.rules
        mine = Contracts(name, contracts)
        return Manager(name, cost, mine, rules, journal=journal, now=now, bound=bound)

    # Running.

    def run(self) -> None:
        for name, participant in self.scenario.participants.items():
            for task in participant.tasks:
                self.world.at(0, partial(self._tell, name, partial(Manager.own, task=task)))
        for crash in self.scenario.crashes:
            self.world.at(crash.at, partial(self.kill, crash.name, crash.back))
        for change in self.scenario.changes:
            self.world.at(change.at, partial(self._change, change))
        self.world.at(0, self._tick)
        self.world.run(self.scenario.end)

    @property
    def now(self) -> int:
        return self.world.now

    def run_on(self, span: int) -> None:
        self.world.run(self.world.now + span)

    def _tell(self, name: str, event: Callable[[Manager], list[Command]]) -> None:
        party = self.parties[name]
        if party.is_up:
            self._do(party, event(party.manager))

    def _do(self, party: Party, commands: Sequence[Command]) -> None:
        life = party.life
        self.problems += losses(party.manager, commands, is_static=self._is_static)
        for command in commands:
            party.steps += 1
            if self._is_fatal(party):
                assert self._step_crash is not None
                crash, self._step_crash = self._step_crash, None
                self.kill(crash.name, crash.back)
            if not party.is_up or party.life != life:
                return
            self._obey(party, command)
        self._plan_wake(party)

    @property
    def _is_static(self) -> bool:
        """Whether nothing but moves has changed anybody's load for a while."""
        return self.scenario.is_steady and all(
            not 0 <= self.now - each.at < STALE for each in self.scenario.changes
        )

    def _is_fatal(self, party: Party) -> bool:
        crash = self._step_crash
        return crash is not None and crash.name == party.name and crash.step == party.steps

    def _obey(self, party: Party, command: Command) -> None:
        match command:
            case Persist(record):
                party.journal.append(record)
                if isinstance(record, Lent):
                    self.moves += len(record.lots)
            case Send(to, letter):
                self.sent[type(letter.message).__name__] += 1
                if letter.bound.mark != NONE:
                    party.letters.append((party.name, to, letter))
                self._carry(party.name, to, partial(self._deliver, party.name, to, letter))
            case Keep() if self._incoming is not None:
                party.letters.append(self._incoming)
            case Prepare(task, epoch):
                party.runs.setdefault((task, epoch), Run(task, epoch))
                delay = self.random.uniform(0.05, 1.0) * 1e6
                self.world.at(self.now + delay, partial(self._prepare, party, task, epoch))
            case Start(task, epoch, bucket):
                run = party.runs.setdefault((task, epoch), Run(task, epoch))
                run.bucket = bucket
                run.is_halting = run.is_halted = False
                self._measure(party, task)
                self._compute(party, run)
            case Halt(task, epoch) if (task, epoch) in party.runs:
                party.runs[task, epoch].is_halting = True
                self._halt(party, party.runs[task, epoch])
            case Resume(task, epoch) if (task, epoch) in party.runs:
                run = party.runs[task, epoch]
                run.is_halting = run.is_halted = False
            case Stop(task, epoch):
                party.runs.pop((task, epoch), None)
            case Fence(task, epoch):
                self._carry(party.name, "readers", partial(self._fence, party, task, epoch))

    # The network.

    def _carry(self, sender: str, receiver: str, action: Callable[[], None]) -> None:
        weather = self.scenario.weather
        is_bad = self.now < weather.calm
        if is_bad and self.random.random() < weather.loss:
            return
        if receiver != "readers" and self._is_cut(sender, receiver):
            return
        times = 2 if is_bad and self.random.random() < weather.repeats else 1
        for _ in range(times):
            late = self.random.random() * (weather.jitter if is_bad else CALM_JITTER)
            if is_bad and self.random.random() < 0.03:
                late = 3e6 * self.random.random()
            self.world.at(self.now + LATENCY + late, action)

    def _is_cut(self, one: str, other: str) -> bool:
        return any(
            {one, other} == {cut.one, cut.other} and cut.at <= self.now < cut.at + cut.length
            for cut in self.scenario.cuts
        )

    def _deliver(self, sender: str, receiver: str, letter: Letter) -> None:
        self._incoming = (sender, receiver, letter)
        self._tell(receiver, lambda manager: manager.receive(sender, letter, self.now))
        self._incoming = None

    # Tasks.

    def _tick(self) -> None:
        """There is another bucket of everything."""
        for party in self.parties.values():
            for run in list(party.runs.values()):
                self._compute(party, run)
        self.world.at(self.now + BUCKET, self._tick)

    def _compute(self, party: Party, run: Run) -> None:
        if run.bucket is None or run.is_halted or not party.is_up:
            return
        if not run.in_hand:
            if run.is_halting or run.bucket * BUCKET > self.now:
                return
            run.in_hand = True
            self.computed[run.task, run.bucket].append((party.name, run.epoch))
        bucket, life = run.bucket, party.life
        self._carry(party.name, "readers", partial(self._publish, party, life, run, bucket))

    def _publish(self, party: Party, life: int, run: Run, bucket: int) -> None:
        taken = self.readers[run.task].publish(party.name, run.epoch, bucket)
        answer = partial(self._published, party, life, run, bucket, taken)
        self._carry(party.name, "readers", answer)

    def _published(self, party: Party, life: int, run: Run, bucket: int, taken: bool) -> None:
        if party.life != life or not party.is_up or run.bucket != bucket or not run.in_hand:
            return
        run.in_hand = False
        if not taken:
            party.runs.pop((run.task, run.epoch), None)
            self._tell(party.name, lambda m: m.refused(run.task, run.epoch, self.now))
            return
        run.bucket += 1
        if run.is_halting:
            self._halt(party, run)
        else:
            self._compute(party, run)

    def _halt(self, party: Party, run: Run) -> None:
        if run.in_hand or run.is_halted or run.bucket is None:
            return
        run.is_halted = True
        bucket = run.bucket
        self._tell(party.name, lambda m: m.halted(run.task, run.epoch, bucket, self.now))

    def _prepare(self, party: Party, task: str, epoch: Epoch) -> None:
        if (task, epoch) not in party.runs:
            return
        if self.random.random() < self.scenario.unable:
            self._tell(party.name, lambda m: m.unable(task, epoch, self.now))
        else:
            self._tell(party.name, lambda m: m.prepared(task, epoch, self.now))

    def _fence(self, party: Party, task: str, epoch: Epoch) -> None:
        bucket = self.readers[task].raise_fence(epoch)
        life = party.life

        def answer() -> None:
            if party.life != life:
                return
            if bucket is None:
                self._tell(party.name, lambda m: m.refused(task, epoch, self.now))
            else:
                self._tell(party.name, lambda m: m.fenced(task, epoch, bucket))

        self._carry(party.name, "readers", answer)

    def _change(self, change: Change) -> None:
        self.loads[change.task] = change.load
        for party in self.parties.values():
            if any(task == change.task for task, _ in party.runs):
                self._measure(party, change.task)

    def _measure(self, party: Party, task: str) -> None:
        """Only who runs a task knows what it takes."""
        for record in party.manager.measure({task: self.loads[task]}):
            assert isinstance(record, Persist)
            assert isinstance(record.record, Restated)
            party.journal.append(record.record)

    # Waking and dying.

    def _plan_wake(self, party: Party) -> None:
        due = party.manager.due
        if due is None or not party.is_up:
            return
        due = max(due, self.now)
        if party.woken_at is None or due < party.woken_at:
            party.woken_at = due
            self.world.at(due, partial(self._wake, party, party.life, due))

    def _wake(self, party: Party, life: int, planned: int) -> None:
        if party.life != life or not party.is_up or party.woken_at != planned:
            return
        party.woken_at = None
        self._do(party, party.manager.wake(self.now))
        self._plan_wake(party)

    def kill(self, name: str, back: int | None) -> None:
        party = self.parties[name]
        if not party.is_up:
            return
        self.deaths += 1
        party.is_up = False
        party.life += 1
        party.runs.clear()
        party.woken_at = None
        if back is not None:
            self.world.at(self.now + back, partial(self._restart, Crash(name, self.now, back)))

    def _restart(self, crash: Crash) -> None:
        party = self.parties[crash.name]
        party.is_up = True
        if self.scenario.seed % 2:
            # Whenever a journal is written anew, the books stay the same.
            party.journal = [Books(crash.name, party.journal).summary()]
        bound = {to: each.bound.mark for me, to, each in party.letters if me == party.name}
        party.manager = self._manager(crash.name, party.journal, self.now, bound)
        self._do(party, party.manager.recover(self.now))
        for task in self.scenario.participants[crash.name].tasks:
            # A client that was not told that its task is taken brings it again.
            if LoanId(crash.name, 0, task.id) not in party.manager.books.holdings:
                self._tell(crash.name, partial(Manager.own, task=task))
        self._plan_wake(party)
