"""Load managers in virtual time, with tasks that run, on a bad network, dying at chosen steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from holdfast.federation.machine import (
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
from holdfast.federation.machine.messages import LOOSE, NONE, Alive, Bound, Mark
from holdfast.federation.machine.records import (
    Borrowed,
    Failed,
    Handed,
    Home,
    Lent,
    Restated,
)
from simulator.federation.billing import Bills
from simulator.federation.cheating import tamper
from simulator.federation.fairness import Decisions
from simulator.federation.readers import Readers
from simulator.federation.scenario import (
    BUCKET,
    Breakdown,
    Change,
    Crash,
    Pause,
    Scenario,
)
from simulator.world import World

LATENCY = 1_000
CALM_JITTER = 2_000
STALE = 5 * SECOND
FORGED = 1_000_000
"""Places in its chain that a cheat makes up begin here."""


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
    decisions: Decisions = field(default_factory=Decisions)
    runs: dict[tuple[str, Epoch], Run] = field(default_factory=dict)
    is_up: bool = True
    life: int = 0
    steps: int = 0
    skew: int = 0
    """How far its time is ahead: it begins with the date, and then goes by a steady clock."""
    paused: int = 0
    """Until when its load manager does not run."""
    broken: int = 0
    """Until when no task of others runs there."""
    recorded: dict[str, Callable[[], None]] = field(default_factory=dict)
    """Its last sign of life to each partner, sent again by others when it is dead."""
    there: int = 0
    """Since when it has been there for others, without a break."""
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
        self.pauses = 0
        self.bills = Bills()
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
        for pause in self.scenario.pauses:
            self.world.at(pause.at, partial(self._pause, pause))
        for breakdown in self.scenario.breakdowns:
            self.world.at(breakdown.at, partial(self._break, breakdown))
        for change in self.scenario.changes:
            self.world.at(change.at, partial(self._change, change))
        self.world.at(0, self._tick)
        self.world.run(self.scenario.end)

    @property
    def now(self) -> int:
        return self.world.now

    @property
    def honest(self) -> dict[str, Manager]:
        """Load managers that are there, and do not cheat."""
        return {
            name: party.manager
            for name, party in self.parties.items()
            if party.is_up and name not in self.scenario.cheats
        }

    def run_on(self, span: int) -> None:
        self.world.run(self.world.now + span)

    def _tell(self, name: str, event: Callable[[Manager], list[Command]]) -> None:
        party = self.parties[name]
        if self.now < party.paused:
            self.world.at(party.paused + 1, partial(self._tell, name, event))
        elif party.is_up:
            self._do(party, event(party.manager))

    def _do(self, party: Party, commands: Sequence[Command]) -> None:
        life = party.life
        if party.name not in self.scenario.cheats:
            decided = party.decisions.losses(party.manager, commands, is_static=self._is_static)
            self.problems += decided
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
                self._note(party, record)
            case Send(to, letter):
                said = self._tampered(party, letter)
                if said is not None:
                    self._send(party, to, said)
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

    def time(self, party: Party) -> int:
        """Of its load manager."""
        return self.now + party.skew

    def _note(self, party: Party, record: Record) -> None:
        match record:
            case Lent():
                self.moves += len(record.lots)
            case Borrowed(loan):
                self.bills.borrowed[party.name, loan] = record
            case Handed(loan):
                self.bills.handed[loan] = (party.name, loan.task, self.now)
            case Failed(loan):
                self._note_failure(party, loan)
                self.bills.ended.setdefault(loan, self.now)
            case Home(loan):
                self.bills.ended.setdefault(loan, self.now)

    def _note_failure(self, party: Party, loan: LoanId) -> None:
        """Nobody is given up who was there all the time, and answered. What is handed over to
        somebody is not there yet: it may be refused."""
        found = party.manager.books.loan(loan)
        if found is None or not found.periods or self.deaths:
            return
        if {party.name, found.partner} & self.scenario.cheats.keys():
            return
        partner = self.parties[found.partner]
        weather, cuts = self.scenario.weather, self.scenario.cuts
        is_clear = not (weather.loss or cuts or self.scenario.breakdowns or self.scenario.unable)
        if is_clear and self.now - partner.there > self.scenario.rules.patience + SECOND:
            self.problems.append(f"{party.name} has given up {found.partner}, which was there")

    def _send(self, party: Party, to: str, letter: Letter) -> None:
        self.sent[type(letter.message).__name__] += 1
        if letter.bound.mark != NONE:
            party.letters.append((party.name, to, letter))
        deliver = partial(self._deliver, party.name, to, letter)
        if isinstance(letter.message, Alive):
            party.recorded[to] = deliver
        self._carry(party.name, to, deliver)
        if self.random.random() < self.scenario.replays:
            self.world.at(self.now + 15e6 * self.random.random(), deliver)

    def _tampered(self, party: Party, letter: Letter) -> Letter | None:
        kind = self.scenario.cheats.get(party.name)
        if kind is None:
            return letter
        message = tamper(kind, letter.message, self.random)
        if message is None:
            return None
        bound = letter.bound
        if bound.mark == NONE and not isinstance(message, LOOSE):
            life, number = letter.mark
            bound = Bound((life, FORGED + number))
        return replace(letter, message=message, bound=bound)

    def _pause(self, pause: Pause) -> None:
        party = self.parties[pause.name]
        party.paused = party.there = self.now + pause.length
        self.pauses += 1

    def _break(self, breakdown: Breakdown) -> None:
        party = self.parties[breakdown.name]
        party.broken = self.now + breakdown.length
        self._report(party)
        self.world.at(party.broken + 1, partial(self._report, party))

    def _broken(self, party: Party) -> frozenset[str]:
        if self.now > party.broken:
            return frozenset()
        own = {each.id for each in self.scenario.participants[party.name].tasks}
        return frozenset(task for task, _ in party.runs if task not in own)

    def _report(self, party: Party) -> None:
        broken = self._broken(party)
        self._tell(party.name, lambda m: m.measure({}, broken))

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
        party = self.parties[receiver]
        if self.now < party.paused:
            self.world.at(party.paused + 1, partial(self._deliver, sender, receiver, letter))
            return
        self._incoming = (sender, receiver, letter)
        self._tell(receiver, lambda manager: manager.receive(sender, letter, self.time(party)))
        self._incoming = None

    # Tasks.

    def _tick(self) -> None:
        """There is another bucket of everything."""
        for party in self.parties.values():
            for run in list(party.runs.values()):
                if run.bucket is not None and not run.is_halted:
                    self.bills.ran[party.name, run.task, run.epoch] += 1
                self._compute(party, run)
        self.world.at(self.now + BUCKET, self._tick)

    def _compute(self, party: Party, run: Run) -> None:
        if run.bucket is None or run.is_halted or not party.is_up:
            return
        if not run.in_hand and run.task in self._broken(party):
            return
        if not run.in_hand:
            if run.is_halting or run.bucket * BUCKET > self.now:
                return
            run.in_hand = True
            self.computed[run.task, run.bucket].append((party.name, run.epoch))
            self.bills.buckets[party.name, run.task, run.epoch] += 1
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
            self._tell(party.name, lambda m: m.refused(run.task, run.epoch, self.time(party)))
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
        self._tell(party.name, lambda m: m.halted(run.task, run.epoch, bucket, self.time(party)))

    def _prepare(self, party: Party, task: str, epoch: Epoch) -> None:
        if (task, epoch) not in party.runs:
            return
        if self.random.random() < self.scenario.unable:
            self._tell(party.name, lambda m: m.unable(task, epoch, self.time(party)))
        else:
            self._tell(party.name, lambda m: m.prepared(task, epoch, self.time(party)))

    def _fence(self, party: Party, task: str, epoch: Epoch) -> None:
        bucket = self.readers[task].raise_fence(epoch)
        life = party.life

        def answer() -> None:
            if party.life != life:
                return
            if bucket is None:
                self._tell(party.name, lambda m: m.refused(task, epoch, self.time(party)))
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
        broken = self._broken(party)
        for record in party.manager.measure({task: self.loads[task]}, broken):
            assert isinstance(record, Persist)
            assert isinstance(record.record, Restated)
            party.journal.append(record.record)

    # Waking and dying.

    def _plan_wake(self, party: Party) -> None:
        due = party.manager.due
        if due is None or not party.is_up:
            return
        due = max(due - party.skew, self.now, party.paused)
        if party.woken_at is None or due < party.woken_at:
            party.woken_at = due
            self.world.at(due, partial(self._wake, party, party.life, due))

    def _wake(self, party: Party, life: int, planned: int) -> None:
        if party.life != life or not party.is_up or party.woken_at != planned:
            return
        if self.now < party.paused:
            party.woken_at = None
            self._plan_wake(party)
            return
        party.woken_at = None
        self._do(party, party.manager.wake(self.time(party)))
        self._plan_wake(party)

    def kill(self, name: str, back: int | None) -> None:
        party = self.parties[name]
        if not party.is_up:
            return
        self.deaths += 1
        party.is_up = False
        party.there = self.now
        party.life += 1
        party.runs.clear()
        party.woken_at = None
        if self.scenario.replays:
            self._haunt(party, party.life)
        if back is not None:
            self.world.at(self.now + back, partial(self._restart, Crash(name, self.now, back)))

    def _haunt(self, party: Party, life: int) -> None:
        """Somebody keeps the dead alive."""
        if party.life == life and not party.is_up:
            for deliver in party.recorded.values():
                deliver()
            self.world.at(self.now + SECOND // 2, partial(self._haunt, party, life))

    def _restart(self, crash: Crash) -> None:
        party = self.parties[crash.name]
        party.is_up = True
        if self.scenario.seed % 2:
            # Whenever a journal is written anew, the books stay the same.
            party.journal = [Books(crash.name, party.journal).summary()]
        bound = {to: each.bound.mark for me, to, each in party.letters if me == party.name}
        latest = Books(crash.name, party.journal).latest
        ahead = sum(e.by for e in self.scenario.steps if e.name == crash.name and e.at <= self.now)
        skew = max(ahead, latest - self.now)
        self.bills.restarts[crash.name].append((self.now, skew != party.skew))
        party.skew = skew
        party.paused = 0
        party.manager = self._manager(crash.name, party.journal, self.time(party), bound)
        party.decisions = Decisions()
        self._do(party, party.manager.recover(self.time(party)))
        for task in self.scenario.participants[crash.name].tasks:
            # A client that was not told that its task is taken brings it again.
            if LoanId(crash.name, 0, task.id) not in party.manager.books.holdings:
                self._tell(crash.name, partial(Manager.own, task=task))
        self._plan_wake(party)
