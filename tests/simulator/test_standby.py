"""A source and its hot standby: whatever crashes, is cut off or lost, one stream comes of it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment
from simulator.standby import (
    Command,
    Entry,
    Hand,
    Has,
    Persist,
    Propose,
    Show,
    Tell,
    Twin,
    TwinMessage,
    Vow,
)

INTERVAL, PERIOD, PATIENCE = 50, 10, 60


def make(rank: int, log: list[Entry] | None = None, epoch: int = 0, now: int = 0) -> Twin:
    return Twin(
        rank,
        now,
        interval=INTERVAL,
        period=PERIOD,
        patience=PATIENCE,
        log=log or [],
        epoch=epoch,
    )


class Proxy:
    """A twin with its disk, and the readers that are shown what it shows."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.log: list[Entry] = []
        self.epoch = 0
        self.start(0)

    def start(self, now: int) -> None:
        self.twin: Twin | None = make(self.rank, list(self.log), self.epoch, now)
        self.shown = [entry.segment for entry in self.log[: self.twin.shown]]
        self.life = object()


class Pair:
    """Two proxies, their disks and the wire between them, one device, in virtual time."""

    def __init__(
        self,
        seed: int,
        *,
        loss: float = 0,
        repeats: float = 0,
        crash: float = 0,
        slow: float = 0,
    ) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.repeats = repeats
        self.crash = crash
        self.slow = slow
        self.cuts: set[int] = set()
        """From which proxy nothing arrives."""
        self.proxies = [Proxy(0), Proxy(1)]
        self.events: list[tuple[int, int, object, Command | TwinMessage]] = []
        self.now = 0
        self.read = 0
        self.settled = 0
        self.final: list[Segment] = []
        self.went_alone = False

    def do(self, rank: int, commands: list[Command]) -> None:
        proxy = self.proxies[rank]
        for command in commands:
            if self.random.random() < self.crash:
                self.kill(rank)
                return
            match command:
                case Show(segment):
                    proxy.shown.append(segment)
                case Tell(message):
                    self.carry(1 - rank, message)
                case _:
                    self.events.append((self.now + self.takes(5), rank, proxy.life, command))
        self.check(proxy)

    def carry(self, to: int, message: TwinMessage) -> None:
        if 1 - to in self.cuts or self.random.random() < self.loss:
            return
        for _ in range(1 + (self.random.random() < self.repeats)):
            self.events.append((self.now + self.takes(12), to, None, message))

    def takes(self, most: int) -> int:
        is_slow = self.random.random() < self.slow
        return self.random.randint(1, 4 * PATIENCE if is_slow else most)

    def kill(self, rank: int) -> None:
        self.proxies[rank].twin = None

    def restart(self, rank: int) -> None:
        if self.proxies[rank].twin is None:
            self.proxies[rank].start(self.now)
            self.check(self.proxies[rank])

    def handle(self, rank: int, life: object, what: Command | TwinMessage) -> None:
        proxy = self.proxies[rank]
        twin = proxy.twin
        if isinstance(what, Persist | Vow):
            if twin is None or life is not proxy.life:
                return
            if isinstance(what, Vow):
                proxy.epoch = what.epoch
                self.do(rank, twin.vowed(what.epoch, self.now))
                return
            assert len(proxy.log) >= what.index
            proxy.log[what.index :] = [what.entry]
            if self.random.random() < self.crash:
                self.kill(rank)
                return
            self.do(rank, twin.persisted(what.index, what.entry, self.now))
        elif twin is not None:
            assert isinstance(what, Propose | Has | Hand)
            self.do(rank, twin.receive(what, self.now))

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now += 1
            due = [each for each in self.events if each[0] <= self.now]
            self.events = [each for each in self.events if each[0] > self.now]
            self.random.shuffle(due)
            for _, rank, life, what in due:
                self.handle(rank, life, what)
            for rank, proxy in enumerate(self.proxies):
                if proxy.twin is not None and proxy.twin.next_wake <= self.now:
                    self.do(rank, proxy.twin.wake(self.now))

    def measure(self, count: int = 1) -> None:
        self.read += count
        self.offer()

    def offer(self) -> None:
        """The device goes to either proxy, with all that is not acknowledged."""
        for rank in self.random.sample([0, 1], self.random.choice([1, 1, 2])):
            for number in range(self.settled + 1, self.read + 1):
                twin = self.proxies[rank].twin
                if twin is None:
                    break
                self.do(rank, twin.offer(number, f"k{number}", number, self.now))
                twin = self.proxies[rank].twin
                if twin is not None:
                    self.settled = max(self.settled, twin.settled)

    def check(self, proxy: Proxy) -> None:
        ours, others = (each.log for each in self.proxies)
        if not self.went_alone:
            common = min(len(ours), len(others))
            assert ours[:common] == others[:common]
            assert len(proxy.shown) <= common
        known = min(len(proxy.shown), len(self.final))
        assert proxy.shown[:known] == self.final[:known]
        self.final += proxy.shown[known:]

    def heal(self) -> None:
        self.loss = self.repeats = self.crash = self.slow = 0
        self.cuts.clear()
        for rank in (0, 1):
            self.restart(rank)
        for _ in range(60):
            self.offer()
            self.run(10)

    def check_end(self) -> None:
        values = [row.value for segment in self.final for row in segment.rows]
        assert values == list(range(1, self.read + 1))
        for before, after in pairwise(self.final):
            assert before.end == after.start
        stimes = [row.stime for segment in self.final for row in segment.rows]
        assert stimes == sorted(stimes)
        for segment in self.final:
            assert all(segment.start <= row.stime < segment.end for row in segment.rows)
        assert [e.segment for e in self.proxies[0].log][: len(self.final)] == self.final
        assert self.proxies[0].shown[-1].end > self.now - 4 * INTERVAL


def primaries(pair: Pair) -> list[int]:
    return [p.rank for p in pair.proxies if p.twin is not None and p.twin.is_primary]


def test_without_faults_both_show_the_same_and_all_of_it_soon() -> None:
    pair = Pair(0)
    for _ in range(20):
        pair.measure(2)
        pair.run(30)
    pair.run(3 * INTERVAL)
    pair.check_end()
    assert primaries(pair) == [0]
    assert pair.settled > 30
    assert len(pair.proxies[1].shown) >= len(pair.final) - 1


def test_boundaries_go_out_without_readings() -> None:
    pair = Pair(0)
    pair.run(10 * INTERVAL)
    pair.check_end()


def test_the_standby_takes_over_and_shows_nothing_new_until_the_other_answers() -> None:
    pair = Pair(1)
    pair.measure(3)
    pair.run(100)
    pair.kill(0)
    before = len(pair.final)
    pair.measure(2)
    pair.run(5 * PATIENCE)
    assert primaries(pair) == [1]
    assert len(pair.final) - before <= 1
    twin = pair.proxies[1].twin
    assert twin is not None
    assert twin.state(pair.now) is State.UP_FAILURE
    pair.restart(0)
    pair.offer()
    pair.run(5 * PERIOD + INTERVAL)
    assert primaries(pair) == [1]
    assert twin.state(pair.now) is State.STABLE
    pair.check_end()


def test_the_old_primary_hands_over_what_no_device_offers_again() -> None:
    pair = Pair(2)
    pair.run(100)
    pair.cuts = {0, 1}
    old = pair.proxies[0].twin
    assert old is not None
    for number in (1, 2, 3):
        pair.do(0, old.offer(number, "k", number, pair.now))
    pair.run(3 * PATIENCE)
    assert primaries(pair) == [0, 1]
    pair.cuts.clear()
    pair.run(3 * PATIENCE)
    assert primaries(pair) == [1]
    pair.read = 3
    pair.check_end()


def test_a_primary_without_an_answer_waits_and_an_operator_lets_it_go() -> None:
    pair = Pair(3)
    pair.measure(2)
    pair.run(100)
    pair.kill(1)
    stalled = len(pair.final) + 1
    pair.measure(2)
    pair.run(300)
    assert len(pair.final) <= stalled
    twin = pair.proxies[0].twin
    assert twin is not None
    assert twin.state(pair.now) is State.UP_FAILURE
    pair.went_alone = True
    pair.do(0, twin.go_alone(pair.now))
    pair.run(100)
    assert twin.state(pair.now) is State.STABLE
    assert pair.final[-1].end >= pair.now - INTERVAL - 5
    pair.restart(1)
    pair.measure(2)
    pair.run(20 * PERIOD)
    pair.offer()
    pair.run(100)
    assert not twin.is_alone
    pair.check_end()
    assert len(pair.proxies[1].shown) >= len(pair.final) - 1


def states(pair: Pair) -> list[State]:
    return [p.twin.state(pair.now) for p in pair.proxies if p.twin is not None]


@pytest.mark.parametrize("cut", [0, 1])
def test_neither_looks_well_while_only_one_of_them_hears_the_other(cut: int) -> None:
    pair = Pair(4)
    pair.run(3 * INTERVAL)
    assert states(pair) == [State.STABLE, State.STABLE]
    pair.cuts = {cut}
    pair.run(6 * PATIENCE)
    before = len(pair.final)
    pair.run(6 * PATIENCE)
    assert len(pair.final) == before
    assert states(pair) == [State.UP_FAILURE, State.UP_FAILURE]
    pair.cuts.clear()
    pair.run(4 * INTERVAL)
    assert states(pair) == [State.STABLE, State.STABLE]


def test_a_proxy_that_is_behind_after_a_restart_does_not_look_well() -> None:
    pair = Pair(5)
    pair.run(3 * INTERVAL)
    pair.kill(1)
    pair.run(10 * INTERVAL)
    pair.restart(1)
    twin = pair.proxies[1].twin
    assert twin is not None
    assert twin.state(pair.now) is State.UP_FAILURE
    pair.run(3 * INTERVAL)
    assert states(pair) == [State.STABLE, State.STABLE]


def test_only_a_primary_goes_alone() -> None:
    with pytest.raises(InvalidArgumentError, match="not the primary"):
        make(1).go_alone(0)


@pytest.mark.parametrize(
    ("rank", "interval", "period", "patience"),
    [(2, 10, 1, 3), (0, 0, 1, 3), (0, 10, 0, 3), (0, 10, 3, 3)],
)
def test_arguments_without_sense_are_refused(
    rank: int, interval: int, period: int, patience: int
) -> None:
    with pytest.raises(InvalidArgumentError, match="standby"):
        Twin(rank, 0, interval=interval, period=period, patience=patience)


def test_a_reading_that_was_taken_in_or_follows_a_missing_one_is_left() -> None:
    twin = make(1)
    for number in (1, 2, 2, 4, 1):
        twin.offer(number, "k", number, 5)
    [hand] = [c.message for c in twin.wake(10) if isinstance(c, Tell)]
    assert isinstance(hand, Hand)
    assert [reading.number for reading in hand.readings] == [1, 2]


def test_an_entry_is_logged_by_the_standby_first_and_shown_last() -> None:
    primary, standby = make(0), make(1)
    [first] = primary.wake(0)
    assert isinstance(first, Tell)
    [here] = standby.receive(first.message, 1)
    assert isinstance(here, Tell)
    primary.receive(here.message, 2)
    [ask, *_] = primary.offer(1, "k", 1, 5) + primary.wake(INTERVAL)
    assert isinstance(ask, Tell)
    [write] = standby.receive(ask.message, 21)
    assert isinstance(write, Persist)
    assert standby.receive(ask.message, 21) == []
    [logged] = standby.persisted(write.index, write.entry, 22)
    assert isinstance(logged, Tell)
    [written] = primary.receive(logged.message, 23)
    assert written == write
    shown = primary.persisted(write.index, write.entry, 24)
    assert shown[0] == Show(write.entry.segment)
    assert primary.settled == 1
    assert standby.settled == 0


def entry(start: int, *numbers: int, epoch: int = 0, last: int = 0, alone: bool = False) -> Entry:
    rows = tuple(Row(start, "k", number) for number in numbers)
    return Entry(epoch, Segment(start, start + INTERVAL, rows), max([last, *numbers]), alone)


def test_a_proposal_of_an_older_epoch_is_not_logged_but_told_of_the_newer_one() -> None:
    twin = make(1, epoch=3)
    [told] = twin.receive(Propose(2, 0, 0, 0, entry(0, 1, epoch=2)), 5)
    assert isinstance(told, Tell)
    assert isinstance(told.message, Propose)
    assert told.message.epoch == 3
    old = make(0, epoch=2)
    old.receive(told.message, 6)
    assert not old.is_primary


def test_an_epoch_that_is_not_written_down_is_told_to_nobody() -> None:
    twin = make(1)
    assert twin.wake(PATIENCE) == [Vow(1)]
    assert twin.receive(Propose(0, 0, 0, 0, None), PATIENCE + 1) == []
    told, *_ = twin.vowed(1, PATIENCE + 2)
    assert isinstance(told, Tell)
    assert isinstance(told.message, Propose)
    assert told.message.epoch == 1


def test_two_standbys_do_not_keep_each_other_waiting() -> None:
    twin = make(1)
    for now in range(PERIOD, PATIENCE, PERIOD):
        twin.receive(Hand(()), now)
    assert twin.wake(PATIENCE) == [Vow(1)]


def test_a_restarted_primary_keeps_what_its_standby_logged_of_an_earlier_proposal() -> None:
    first, second = entry(0, 1), entry(0, 1, 2)
    standby = make(1, [first])
    [told] = standby.receive(Propose(0, 0, 0, 0, second), 5)
    assert told == Tell(Has(0, 1, first))
    primary = make(0)
    assert primary.receive(told.message, 6) == [Persist(0, first)]


def test_a_primary_gives_up_an_entry_nobody_saw_for_one_that_was_shown_alone() -> None:
    seen, unseen, alone = entry(0, 1), entry(50, 2, 3), entry(50, 2, epoch=1, alone=True)
    primary = make(0, [seen, unseen], epoch=2)
    assert primary.receive(Has(2, 2, alone), 5) == [Persist(1, alone)]
    shown = primary.persisted(1, alone, 6)
    assert Show(alone.segment) in shown
    [following] = [c.message for c in primary.wake(150) if isinstance(c, Tell)][:1]
    assert isinstance(following, Propose)
    assert following.entry is not None
    assert [row.value for row in following.entry.segment.rows] == [3]


@pytest.mark.parametrize("seed", range(150))
def test_one_stream_comes_of_it_whatever_happens(seed: int) -> None:
    random = Random(seed)
    pair = Pair(
        seed,
        loss=random.choice([0, 0.1, 0.4]),
        repeats=random.choice([0, 0.3]),
        crash=random.choice([0, 0.005, 0.03]),
        slow=random.choice([0, 0.05, 0.3]),
    )
    for _ in range(40):
        match random.randrange(6):
            case 0:
                pair.cuts = set(random.sample([0, 1], random.randrange(3)))
            case 1:
                pair.kill(random.randrange(2))
            case 2 | 3:
                pair.restart(random.randrange(2))
            case _:
                pair.cuts.clear()
        pair.measure(random.randrange(4))
        pair.run(random.choice([3, 20, 100]))
    pair.heal()
    pair.check_end()


@pytest.mark.parametrize("step", range(60))
@pytest.mark.parametrize("victim", [0, 1])
def test_a_crash_at_any_step_loses_nothing(step: int, victim: int) -> None:
    """Between log and send, after the log and before the answer, and everywhere else."""
    pair = Pair(step)
    steps = 0
    do = pair.do

    def counted(rank: int, commands: list[Command]) -> None:
        nonlocal steps
        for command in commands:
            steps += rank == victim
            if steps == step and rank == victim:
                steps += 1
                pair.kill(rank)
                return
            do(rank, [command])

    pair.do = counted  # type: ignore[method-assign]
    for _ in range(16):
        pair.measure(1)
        pair.run(25)
    assert steps > step
    pair.do = do  # type: ignore[method-assign]
    pair.heal()
    pair.check_end()


@pytest.mark.parametrize("seed", range(60))
def test_what_one_has_shown_alone_stands_when_the_other_returns(seed: int) -> None:
    random = Random(seed)
    pair = Pair(seed, loss=random.choice([0, 0.2]), repeats=0.2, crash=random.choice([0, 0.01]))
    for _ in range(8):
        pair.measure(2)
        pair.run(random.randrange(1, 60))
    pair.crash = 0
    lone = random.randrange(2)
    pair.kill(1 - lone)
    pair.restart(lone)
    pair.run(3 * PATIENCE)
    twin = pair.proxies[lone].twin
    assert twin is not None
    pair.went_alone = True
    pair.do(lone, twin.go_alone(pair.now))
    for _ in range(4):
        pair.measure(2)
        pair.run(random.randrange(1, 60))
    if random.random() < 0.5:
        pair.kill(lone)
        pair.restart(1 - lone)
        pair.measure(2)
        pair.run(random.choice([PERIOD, 3 * PATIENCE]))
    pair.heal()
    pair.check_end()
    assert min(len(proxy.shown) for proxy in pair.proxies) >= len(pair.final) - 1
