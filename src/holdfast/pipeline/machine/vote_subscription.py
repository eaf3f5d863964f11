"""Subscription to all replicas of an input stream, through a gate that compares them.

For `vote`, `vote-latest`, `sample`, `first` and `latest`: the gate decides on digests which copy of
a bucket goes through; the rows wait here. Nothing tentative passes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import (
    Accuse,
    Command,
    Copy,
    First,
    Gate,
    Giveup,
    Latest,
    Redo,
    Release,
    Sample,
    Split,
    Taint,
    Vote,
    VoteLatest,
)
from holdfast.pipeline.gates.ballot import Ballot
from holdfast.pipeline.gates.sample import KEY_BYTES
from holdfast.pipeline.machine.findings import Findings
from holdfast.pipeline.machine.messages import (
    Again,
    Feed,
    Gap,
    Item,
    Progress,
    Recalculate,
    Send,
    Stable,
    Subscribe,
    Unsubscribe,
)
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import Subscription
from holdfast.pipeline.machine.throttle import Pace, Rest
from holdfast.pipeline.machine.tuples import Segment, digest

# The start of a stream that is read from several replicas: all of them, if they come in time.
#
# Replicas that begin together stay together, so that little waits for the slowest. One that never
# comes must not hold the stream up for ever: after a while enough of them will do.


class Barrier:
    """Opens when all are there; `patience` after the first look, when `enough` are."""

    def __init__(self, enough: int, patience: int) -> None:
        self.enough = enough
        self.patience = patience
        self.is_open = patience == 0
        self.missing: tuple[str, ...] = ()
        """Who was not there at the last look."""
        self._since: int | None = None

    def look(self, states: Mapping[str, State], now: int) -> bool:
        """Whether it is open, now that the replicas are in these states. It never closes again."""
        if self.is_open:
            return True
        self._since = now if self._since is None else self._since
        self.missing = tuple(name for name, state in states.items() if state is State.FAILURE)
        there = len(states) - len(self.missing)
        is_late = now >= self._since + self.patience
        self.is_open = not self.missing or (is_late and there >= self.enough)
        return self.is_open


MANY: Final = 512
"""With more copies than this, those that nobody will ask for are looked for."""
AT_ONCE: Final = 8
"""So many buckets are asked for again with each heartbeat, if the answer was lost."""
WORDS: Final = 4
"""So many copies of a bucket are taken from one replica; who tells more stories is not heard."""
LONG: Final = 64
"""Who is so many buckets behind and may skip some begins with the newest."""
LARGEST: Final = 2**62
"""Nobody has subscribed so often, and no stream is so long. Who says so is not told it again: when
he is well he will not understand it."""
HEAVY: Final = 64 << 20
"""With so many bytes of copies waiting, nobody is read who has given the bucket to decide on."""
SLOW: Final = 4
"""So many times the grace a trusted replica has for what others had before."""
ROOM: Final = 32
"""With more copies than this waiting, the fastest replica rests, unless told otherwise."""


@dataclass(slots=True)
class _Source:
    """One replica as it is read."""

    bucket: int = 0
    """The next one to read."""
    start: int = 0
    """What was before this it keeps no longer."""
    subscription: Subscription | None = None
    latest: int = -1
    """The number of the last subscription, as far as is known. Each has its own, for it can be
    forged."""
    is_full: bool = False
    """Whether more was sent than there was room for; it is to be read again."""
    silence: range = range(0)
    """A long stretch of buckets that are empty, as it says."""
    rests_until: int = 0
    """It is too fast for the others, and not read before."""


class VoteIntake:
    """Reads one stream from all its replicas; `make(first)` gives the gate that says what goes
    through from that bucket on."""

    def __init__(
        self,
        stream: str,
        make: Callable[[int], Gate],
        replicas: Sequence[str],
        *,
        size: int,
        grace: int,
        enough: int = 1,
        quorum: int = 1,
        barrier: int = 0,
        room: int = ROOM,
        rest: Rest = Rest.DISTANCE,
        findings: Findings | None = None,
    ) -> None:
        """`size`: of the stream's buckets. `grace`: a heartbeat sent so much later than a
        subscription does not overtake it. `enough`: so many replicas have to keep a bucket for the
        gate to release it. `quorum`: so many have to say that nothing is in a long stretch of
        buckets for it to be skipped, and have to be there at the start if not all are within
        `barrier`. `room`: with more copies than this waiting, the fastest replica rests, and
        `rest` says for how long. `findings`: what is known of the replicas."""
        self.stream = stream
        self.size = size
        self.grace = grace
        self.enough = enough
        self.quorum = quorum
        self.barrier = Barrier(quorum, barrier)
        self.position = 0
        self._begun = 0
        """The bucket at which reading began."""
        self.caught_up: set[str] = set()
        self.is_paused = False
        self.findings = findings or Findings()
        self._make = make
        self.gate = self._make_gate(0)
        self._pace = Pace(enough, room, rest)
        self._sources = {name: _Source() for name in replicas}
        self._rows: dict[tuple[int, bytes], Segment] = {}
        self.held_bytes = 0
        """Of the copies that wait for a decision."""
        self._words: Counter[tuple[int, str]] = Counter()
        """How many of the copies of a bucket came from each replica."""
        self._trusted: str | None = None
        self._stands: tuple[tuple[int, str], int] = (-1, ""), 0
        """Of a gate that samples: its next bucket and the replica to give it, and since when."""
        self._goal: tuple[tuple[int, str], int] = (-1, ""), 0
        """The bucket that others had come to, and the replica to come there, and since when."""
        self._was_away = True
        """Whether the replicas may have gone on without us."""
        self._redos: dict[int, Recalculate] = {}
        """What was to be calculated again and is not settled."""

    def _make_gate(self, first: int) -> Gate:
        gate = self._make(first)
        for name in self.findings.quarantined:
            if isinstance(gate, Vote | VoteLatest | Sample):
                gate.quarantine(name)
        return gate

    @property
    def needed(self) -> int:
        """Of a gate that samples: where it has released what it has not compared yet."""
        if not isinstance(self.gate, Sample):
            return self.position
        return min(self.position, self.gate.wants(self.gate.trusted).start * self.size)

    def best(self, states: Mapping[str, State]) -> State:
        """As good as those are that have to agree."""
        return sorted(states.values())[min(self.enough, len(states)) - 1]

    def newest(self, ends: Mapping[str, int]) -> int:
        return self._believed(ends.values())

    def _believed(self, claims: Collection[int]) -> int:
        """The highest that is not a lie: as many as may lie can claim anything."""
        return sorted(claims, reverse=True)[min(len(self._sources) - self.quorum, len(claims) - 1)]

    def place_of(self, replica: str) -> int:
        return self._sources[replica].bucket * self.size

    @property
    def held(self) -> int:
        """How many copies wait for a decision."""
        return len(self._rows)

    @property
    def ballots(self) -> Mapping[int, Ballot]:
        """On the last buckets that were voted on, by their numbers; none if nobody votes."""
        return self.gate.ballots if isinstance(self.gate, Vote | VoteLatest | Sample) else {}

    def read_on(self, states: Mapping[str, State], ends: Mapping[str, int], now: int) -> list[Send]:
        if not self.barrier.look(states, now):
            return []
        self._leave_who_gives_nothing(states, now)
        return [*self._catch_up(states, ends), *self._fill_room(states, now)]

    def _catch_up(self, states: Mapping[str, State], ends: Mapping[str, int]) -> list[Send]:
        """Where older buckets may be skipped: begin with the newest one that as many say they have
        as have to agree, if we were away for long. Not otherwise: those that lie can say that they
        have it, and who is waited for then would be left behind again and again."""
        there = [ends[name] for name in ends if states[name] is not State.FAILURE]
        self._was_away |= len(there) < self.quorum
        if not self._was_away or len(there) < self.quorum:
            return []
        self._was_away = False
        newest = sorted(there, reverse=True)[self.quorum - 1] // self.size - 1
        if not isinstance(self.gate, VoteLatest | Latest) or newest <= self.gate.next + LONG:
            return []
        self.gate.skip(newest)
        self._forget(lambda bucket: bucket < newest)
        behind = [name for name, source in self._sources.items() if source.bucket < newest]
        return [send for name in behind for send in self._unsubscribe(name)]

    def _fill_room(self, states: Mapping[str, State], now: int) -> list[Send]:
        sends = self._follow_trust()
        if self.is_paused:
            return sends
        return sends + [
            self._subscribe(name, now)
            for name, source in self._sources.items()
            if (source.subscription is None or source.is_full)
            and states[name] is not State.FAILURE
            and not self._rests(name, now)
            and self._has_room(name)
        ]

    def _leave_who_gives_nothing(self, states: Mapping[str, State], now: int) -> None:
        """Trust another replica if the trusted one is gone, or keeps back what as many others have
        as have to agree, or comes there too slowly, as one does that tells it in disorder. Of these
        rather one that does not claim to be far ahead: it may forge."""
        if not isinstance(self.gate, Sample):
            return
        self.gate.fail([name for name, state in states.items() if state is State.FAILURE])
        following, trusted, counters = self.gate.next, self.gate.trusted, self._counters
        others = [name for name in counters if counters[name] > following and name != trusted]
        are_enough = len(others) >= self.quorum
        if self._stands[0] != (following, trusted) or self.is_paused:
            self._stands = (following, trusted), now
        goal, of = self._goal[0]
        if goal <= following or of != trusted or self.is_paused:
            agreed = sorted(map(counters.__getitem__, others), reverse=True)
            goal = agreed[self.quorum - 1] if are_enough else following
            self._goal = (goal, trusted), now
        gives_nothing = now >= self._stands[1] + self.grace
        is_slow = goal > following and now >= self._goal[1] + SLOW * self.grace
        if are_enough and (gives_nothing or is_slow):
            self.gate.pass_over(sorted(others, key=counters.__getitem__))

    def _follow_trust(self) -> list[Send]:
        """Another replica is trusted now: read it anew from where nothing has been released, or
        from where it has not voted."""
        if not isinstance(self.gate, Sample) or self.gate.trusted == self._trusted:
            return []
        self._trusted = self.gate.trusted
        source = self._sources[self._trusted]
        source.bucket = min(source.bucket, self.gate.next)
        return self._unsubscribe(self._trusted)

    def _has_room(self, name: str) -> bool:
        wanted, bucket = self.gate.wants(name), self._sources[name].bucket
        fits = self.held_bytes < HEAVY or bucket * self.size <= self.position
        return len(wanted) > 0 and bucket < min(wanted.stop, self._comparable) and fits

    @property
    def _comparable(self) -> int:
        """The bucket up to which a gate that samples may release: beyond, the votes of the others
        would come when nobody waits for them any more, and a liar would only have to be fast."""
        if not isinstance(self.gate, Sample):
            return LARGEST
        places = sorted((source.bucket for source in self._sources.values()), reverse=True)
        common = places[self.quorum - 1]
        return max(common, self._begun) + self.gate.reach

    def _subscribe(self, name: str, now: int) -> Send:
        source = self._sources[name]
        source.bucket = max(source.bucket, self.gate.wants(name).start)
        source.latest = max(source.latest + 1, now)
        source.is_full = False
        source.subscription = Subscription(source.latest, now, self.grace)
        place = source.bucket * self.size
        return Send(name, Subscribe(self.stream, source.latest, place, place, previews=False))

    def _unsubscribe(self, name: str) -> list[Send]:
        left, self._sources[name].subscription = self._sources[name].subscription, None
        return [] if left is None else [Send(name, Unsubscribe(self.stream, left.number))]

    def check(self, replica: str, progress: Progress, beat: int, now: int) -> list[Send]:
        source = self._sources.get(replica)
        if source is None:
            return []
        source.start = progress.start
        if progress.subscription < LARGEST:
            source.latest = max(source.latest, progress.subscription)
        lacking = [ask for ask in self._redos.values() if self._lacks(replica, ask)]
        sends = [Send(replica, ask) for ask in lacking[:AT_ONCE]]
        subscription = source.subscription
        if self._has_come_back(replica) and not self.is_paused:
            self._start_anew(replica)
            return [*sends, self._subscribe(replica, now)]
        if subscription is None:
            return [self._subscribe(replica, now), *sends] if sends and not self.is_paused else []
        if not subscription.is_lost(progress, beat):
            return sends
        return [*sends, self._subscribe(replica, now)]

    def _has_come_back(self, replica: str) -> bool:
        """Whether it has what it was told to have lost, or had forged."""
        source, wanted = self._sources[replica], self.gate.wants(replica)
        return source.bucket > wanted.stop > source.start // self.size and len(wanted) > 0

    def _start_anew(self, replica: str) -> None:
        """Read it from the first bucket that the gate wants of it."""
        self._sources[replica].bucket = self.gate.wants(replica).start
        if isinstance(self.gate, Vote | VoteLatest):
            # Nothing follows from it: one more can vote than before.
            self.gate.keeps_from(replica, self._sources[replica].bucket)

    def _lacks(self, replica: str, asked: Recalculate) -> bool:
        return asked.start // self.size in self.gate.wants(replica)

    def take(self, replica: str, feed: Feed, now: int) -> tuple[list[Item], list[Send]]:
        source = self._sources.get(replica)
        subscription = None if source is None else source.subscription
        if source is None or subscription is None:
            return [], []
        news: list[Item] = []
        sends: list[Send] = []
        came = 0
        for item in self._by_bucket(source, subscription.take(feed)):
            if isinstance(item, Gap):
                kept = min(item.start, LARGEST)
                source.bucket = max(source.bucket, -(-kept // self.size))
                if (
                    isinstance(self.gate, Sample)
                    and replica == self.gate.trusted
                    and source.bucket > self.gate.next
                ):
                    # Nobody can be trusted for what he does not have.
                    self.gate.pass_over()
                elif isinstance(self.gate, Vote | VoteLatest):
                    left = self.gate.keeps_from(replica, source.bucket)
                    released, asked = self._carry_out(left)
                    news += released
                    sends += asked
            elif isinstance(item, Stable | Again):
                if isinstance(item, Stable) and (source.is_full or not self._has_room(replica)):
                    if not self._redos:
                        sends += self._unsubscribe(replica)
                        break
                    # What is calculated again comes with a subscription.
                    source.is_full = True
                    continue
                before = source.bucket
                released, asked = self._take_copy(replica, item)
                came += source.bucket - before
                news += released
                sends += asked
        news += self._skip_silence()
        self._pace.note(replica, came, now)
        sends += self._slow_down(replica, now)
        if news or sends or isinstance(self.gate, Sample):
            sends += self._fill_room(dict.fromkeys(self._sources, State.STABLE), now)
        return news, sends

    def confirm(self, replica: str) -> list[Send]:
        source = self._sources.get(replica)
        if source is None or source.subscription is None:
            return []
        return source.subscription.confirm(self.stream, replica, self.place_of(replica))

    @property
    def _counters(self) -> dict[str, int]:
        """How far each has been read. One that says it keeps only what nobody asks for is not ahead
        of anybody."""
        here = self.position // self.size
        return {
            name: here if source.bucket > self.gate.wants(name).stop else source.bucket
            for name, source in self._sources.items()
        }

    def _rests(self, name: str, now: int) -> bool:
        is_tired = now < self._sources[name].rests_until
        return is_tired and self._pace.is_ahead(name, self._counters)

    def _slow_down(self, replica: str, now: int) -> list[Send]:
        """Let the fastest rest while too much waits for the others. What is calculated again comes
        with a subscription, so not then."""
        rest = 0 if self._redos else self._pace.rest(replica, self._counters, self.held)
        if rest == 0:
            return []
        self._sources[replica].rests_until = now + rest
        return self._unsubscribe(replica)

    def _by_bucket(self, source: _Source, items: Iterable[Item]) -> Iterator[Item]:
        """The items, with a stable segment for each bucket that there is room for, also for those
        without rows."""
        for item in items:
            if not isinstance(item, Stable):
                yield item
                continue
            segment = item.segment.after(min(source.bucket * self.size, item.segment.end))
            limit = min(segment.end, segment.start + MANY * self.size)
            is_next = segment.start == source.bucket * self.size
            if is_next and limit < segment.end and not segment.rows:
                source.silence = range(source.bucket, segment.end // self.size)
            for start in range(segment.start, limit, self.size):
                end = min(start + self.size, segment.end)
                rows = tuple(row for row in segment.rows if start <= row.stime < end)
                yield Stable(Segment(start, end, rows))
                if source.is_full:
                    break
            # The rest is asked for again.
            source.is_full |= limit < segment.end

    def _skip_silence(self) -> list[Item]:
        """Let a long silence through at once, if enough replicas agree on it."""
        now = self.position // self.size
        ends = sorted(
            (each.silence.stop for each in self._sources.values() if now in each.silence),
            reverse=True,
        )
        if len(ends) < self.quorum or ends[self.quorum - 1] - now <= MANY:
            return []
        start, until = self.position, ends[self.quorum - 1]
        self.jump(until * self.size)
        for source in self._sources.values():
            source.bucket = max(source.bucket, until)
        return [Stable(Segment(start, self.position, ()))]

    def _take_copy(self, replica: str, item: Stable | Again) -> tuple[list[Item], list[Send]]:
        segment = item.segment
        number = segment.start // self.size
        attempt = item.attempt if isinstance(item, Again) else 0
        if (segment.start, segment.end) != (number * self.size, (number + 1) * self.size):
            return [], []
        if isinstance(item, Stable):
            if number != self._sources[replica].bucket:
                return [], []
            self._sources[replica].bucket += 1
        said = digest(segment.rows)
        # Of what is released already only votes are wanted.
        is_wanted = number in self.gate.wants(replica) and segment.start >= self.position
        if is_wanted and (number, said) not in self._rows:
            if self._words[number, replica] >= WORDS:
                return [], []
            self._words[number, replica] += 1
            self._rows[number, said] = segment
            self.held_bytes += segment.weight
        commands = self.gate.take(Copy(replica, number, said, attempt))
        if len(self._rows) > MANY:
            oldest = min(self.gate.wants(name).start for name in self._sources)
            self._forget(lambda bucket: bucket < oldest)
        return self._carry_out(commands)

    def _carry_out(self, commands: list[Command]) -> tuple[list[Item], list[Send]]:
        news: list[Item] = []
        sends: list[Send] = []
        waiting = deque(commands)
        while waiting:
            match command := waiting.popleft():
                case Release():
                    news += self._release(command)
                case Accuse():
                    if self.findings.accuse(command):
                        assert isinstance(self.gate, Vote | VoteLatest | Sample)
                        waiting += self.gate.quarantine(command.replica)
                case Taint():
                    self.findings.tainted.append(command)
                case Giveup():
                    self.findings.gave_up = command
                case Split():
                    self.findings.splits += 1
                    self.findings.split = command
                case Redo():
                    sends += self._redo(command)
        return news, sends

    def _release(self, release: Release) -> list[Item]:
        released = self._rows[release.bucket, release.digest]
        self._forget(lambda bucket: bucket <= release.bucket)
        self._redos.pop(release.bucket, None)
        start, self.position = self.position, released.end
        return [Stable(Segment(start, released.end, released.rows))]

    def readmit(self, replica: str) -> tuple[list[Item], list[Send]]:
        """Let the votes of a replica count again."""
        if not self.findings.readmit(replica):
            return [], []
        assert isinstance(self.gate, Vote | VoteLatest | Sample)
        news, sends = self._carry_out(self.gate.readmit(replica))
        self._start_anew(replica)
        return news, [*sends, *self._unsubscribe(replica)]

    def _forget(self, is_over: Callable[[int], bool]) -> None:
        for copy in [copy for copy in self._rows if is_over(copy[0])]:
            self.held_bytes -= self._rows.pop(copy).weight
        for word in [word for word in self._words if is_over(word[0])]:
            del self._words[word]

    def _redo(self, redo: Redo) -> list[Send]:
        self.findings.redone += 1
        self._forget(lambda bucket: bucket == redo.bucket)
        start = redo.bucket * self.size
        ask = Recalculate(self.stream, start, redo.attempt)
        self._redos[redo.bucket] = ask
        return [Send(name, ask) for name in self._sources]

    def pause(self) -> list[Send]:
        self.is_paused = True
        return [send for name in self._sources for send in self._unsubscribe(name)]

    def resume(self) -> None:
        self.is_paused = False
        self._was_away = True

    def gap(self, states: Mapping[str, State], *, hasty: bool = False) -> int | None:
        starts = [
            self._sources[name].start
            for name, state in states.items()
            if state is not State.FAILURE or not hasty
        ]
        if len(starts) < self.enough:
            return None
        # As many as may lie can claim to keep nothing, also while others are away.
        start = min(sorted(starts)[self.enough - 1], self._believed(starts))
        return start if start > self.position else None

    def jump(self, boundary: int) -> list[Item]:
        if boundary <= self.position:
            return []
        self.position = boundary
        self._begun = boundary // self.size
        self.gate = self._make_gate(boundary // self.size)
        self._rows.clear()
        self.held_bytes = 0
        self._words.clear()
        self._redos.clear()
        self._trusted = None
        self._was_away = True
        # The feeds go on: what of them is before the boundary is left.
        return []


# How one input is made of what several replicas publish, where they are compared.
#
# Used by whoever reads: replicas of a stage, sinks, the simulator. `switch` and `order` are not
# here, for they read one replica at a time.

VOTING: Final = ("vote", "vote-latest", "sample")
"""Those that outvote `faults` replicas of 3 · faults + 1."""
COMPARING: Final = (*VOTING, "first", "latest")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy that reads all replicas at once, and its settings."""

    policy: str
    faults: int = 1
    """How many replicas may lie; of no account with `first` and `latest`."""
    every: int = 10
    """`sample` votes on one bucket of so many, on average."""
    barrier: int = 0
    """So long all replicas are waited for at the start."""
    proofs: int = 3
    """After so many accusations the votes of a replica count no more."""
    room: int = ROOM
    """With more copies than this waiting for a decision, the fastest replica rests."""
    rest: Rest = Rest.DISTANCE
    """For how long."""

    def __post_init__(self) -> None:
        if self.policy not in COMPARING:
            raise InvalidArgumentError(
                f"policy: {self.policy!r} does not compare replicas; give one of "
                f"{', '.join(COMPARING)}"
            )
        if self.room < 0:
            raise InvalidArgumentError(f"room: is {self.room}; give 0 or more copies")

    def findings(self) -> Findings:
        return Findings(self.faults, self.proofs)

    def intake(
        self,
        stream: str,
        replicas: Sequence[str],
        *,
        size: int,
        grace: int,
        position: int = 0,
        findings: Findings | None = None,
        secret: bytes = b"",
    ) -> VoteIntake:
        """`size`: of the stream's buckets. `grace`: a heartbeat sent so much later than a
        subscription does not overtake it. `position`: what is before has been read. `secret`:
        random bytes of this reader alone, from which `sample` draws; the others need none."""
        if self.policy == "sample" and not secret:
            raise InvalidArgumentError(
                "secret: is empty, and 'sample' would draw what everybody can predict; give "
                f"{KEY_BYTES} random bytes"
            )
        agreed = len(replicas) - self.faults if self.policy in VOTING else 1
        intake = VoteIntake(
            stream,
            partial(self._gate, tuple(replicas), stream_key(secret, stream)),
            replicas,
            size=size,
            grace=grace,
            enough=agreed if self.policy in ("vote", "vote-latest") else 1,
            quorum=agreed,
            barrier=self.barrier,
            room=self.room,
            rest=self.rest,
            findings=findings or self.findings(),
        )
        intake.jump(position)
        return intake

    def _gate(self, replicas: tuple[str, ...], key: bytes, first: int) -> Gate:
        match self.policy:
            case "vote":
                return Vote(replicas, self.faults, first=first)
            case "vote-latest":
                return VoteLatest(replicas, self.faults, first=first)
            case "sample":
                return Sample(replicas, self.faults, key=key, every=self.every, first=first)
            case "first":
                return First(replicas, first=first)
            case _:
                return Latest(replicas, first=first)


def stream_key(secret: bytes, stream: str) -> bytes:
    """Another key for each stream: samples of one say nothing about those of another."""
    return blake2b(stream.encode(), key=secret, digest_size=KEY_BYTES).digest()
