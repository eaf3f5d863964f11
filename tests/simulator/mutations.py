"""Rules of the protocols, each taken out once: what the simulator must notice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from holdfast.pipeline.gates.gate import Copy
from holdfast.pipeline.gates.order import Order, Stretch
from holdfast.pipeline.gates.sample import Sample
from holdfast.pipeline.gates.vote import Vote
from holdfast.pipeline.gates.vote_latest import VoteLatest
from holdfast.pipeline.machine.inputs import Inputs
from holdfast.pipeline.machine.messages import Feed, Item, LogPiece, RecDone, Send, StateOffer, Undo
from holdfast.pipeline.machine.monitor import Monitor
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.reconcile_lease import Stagger
from holdfast.pipeline.machine.recovery import Recovery
from holdfast.pipeline.machine.source import EventClock
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import Subscription, SwitchIntake
from holdfast.pipeline.machine.tuples import Segment
from holdfast.pipeline.machine.vote_subscription import VoteIntake
from holdfast.runtime.adjusted_clock import Clock
from simulator.parties.node import NodeParty
from simulator.parties.source import SourceParty
from simulator.scenario import Options
from simulator.standby import Command, Show, Twin

__all__ = ["MUTATIONS", "Mutation"]

CLOCKS = Options(faults="clocks")

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """A rule that is taken out, and where to look for what comes of it."""

    name: str
    apply: Callable[[Patch], None]
    options: Options = field(default_factory=Options)
    seed: int = 0
    """Where to begin to look: a seed that shows it, if the first ones do not."""


def reading_not_confirmed(patch: Patch) -> None:
    patch.setattr(Subscription, "confirm", lambda self, stream, replica, place: [])


def boundary_maximum(patch: Patch) -> None:
    patch.setattr(Order, "_frontier", lambda self: max(self._stable.values()) // self.size)


def undo_skipped_by_reader(patch: Patch) -> None:
    take = SwitchIntake.take

    def without(self: Any, *given: Any) -> Any:
        news, sends = take(self, *given)
        return [item for item in news if not isinstance(item, Undo)], sends

    patch.setattr(SwitchIntake, "take", without)


def without_items(kind: type) -> Callable[[Patch], None]:
    """Take a kind of item out of all feeds."""

    def apply(patch: Patch) -> None:
        tell = Line._tell

        def without(self: Line, name: str) -> list[Send]:
            sends = tell(self, name)
            return [
                replace(send, message=replace(send.message, items=_not(kind, send.message.items)))  # type: ignore[arg-type, union-attr, type-var]
                for send in sends
            ]

        patch.setattr(Line, "_tell", without)

    return apply


def _not(kind: type, items: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(item for item in items if not isinstance(item, kind))


def duplicates_kept(patch: Patch) -> None:
    def publish(self: Line, segment: Segment) -> list[Send]:
        self.segments.append(segment)
        self.end = max(self.end, segment.end)
        self.previewed = max(self.previewed, self.end)
        for reader in self._readers.values():
            reader.position = min(reader.position, segment.start)
        return self._tell_all()

    patch.setattr(Line, "publish", publish)


def no_turns(patch: Patch) -> None:
    granted = property(lambda self: True, lambda self, value: None)
    patch.setattr(Stagger, "granted", granted, raising=False)
    patch.setattr(Stagger, "want", lambda self, now: [])
    patch.setattr(Stagger, "finish", lambda self, now: [])
    patch.setattr(Stagger, "next_wake", math.inf)


def ack_of_one_replica(patch: Patch) -> None:
    def truncate(self: Line) -> None:
        self.segments.drop_before(max(self._acks.values()))
        self.dropped_before = self.end if self.segments.start is None else self.segments.start

    patch.setattr(Line, "_truncate", truncate)


def acks_before_saved(patch: Patch) -> None:
    """Acknowledge what was processed, and forget it, though the stage may lose it again."""
    done = Order.base_done

    def base_done(self: Order, stretch: Stretch) -> None:
        done(self, stretch)
        self.forget(self.base)

    patch.setattr(Order, "base_done", base_done)
    patch.setattr(Order, "rewind", lambda self, number: setattr(self, "base", number))


def quorum_of_2f(patch: Patch) -> None:
    patched = Vote.__init__

    def init(self: Vote, *given: Any, **named: Any) -> None:
        patched(self, *given, **named)
        self._quorum = 2

    patch.setattr(Vote, "__init__", init)


def first_vote_wins(patch: Patch) -> None:
    patched = Vote.__init__

    def init(self: Vote, *given: Any, **named: Any) -> None:
        patched(self, *given, **named)
        self._quorum = 1

    patch.setattr(Vote, "__init__", init)


def splits_are_not_repeated(patch: Patch) -> None:
    patch.setattr(VoteIntake, "_redo", lambda self, redo: [])


def highest_claim_believed(patch: Patch) -> None:
    patched = VoteLatest.take

    def take(self: VoteLatest, copy: Copy) -> list[Any]:
        self.skip(copy.bucket - self.ahead)
        return patched(self, copy)

    patch.setattr(VoteLatest, "take", take)


def samples_not_compared(patch: Patch) -> None:
    """Neither what was released with what is agreed upon, nor what else its giver has given."""
    patch.setattr(Sample, "_settle", lambda self, bucket, ballot: [])
    patch.setattr(Sample, "_taint", lambda self, accused: [])


def samples_counted(patch: Patch) -> None:
    patch.setattr(Sample, "is_sampled", lambda self, bucket: bucket % self.every == 0)


def tentative_state_kept(patch: Patch) -> None:
    """The base goes on with what the fork has seen."""
    drop_fork = NodeParty._drop_fork

    def without(self: NodeParty) -> None:
        if self.fork is not None and self.fork.boundary == self.base.boundary:
            self.base, self.fork = self.fork, self.base
        drop_fork(self)

    patch.setattr(NodeParty, "_drop_fork", without)


def previews_at_once(patch: Patch) -> None:
    def first_due(self: Order, number: int) -> float:
        return min(self._reached(number).values(), default=math.inf)

    patch.setattr(Order, "_first_due", first_due)


def previews_never(patch: Patch) -> None:
    patch.setattr(Order, "due", lambda self, correcting, **named: math.inf)


def clock_from_arrival(patch: Patch) -> None:
    """Every gate of a chain waits for its whole delay after the one before it."""

    def first_due(self: Order, number: int) -> float:
        reached = self._reached(number)
        return min((t + self.delays.of(s) for s, t in reached.items()), default=math.inf)

    patch.setattr(Order, "_first_due", first_due)


def failed_replicas_given_up(patch: Patch) -> None:
    wake = Monitor.wake

    def without(self: Monitor, *given: Any) -> list[Send]:
        beats = wake(self, *given)
        return [beat for beat in beats if self._unanswered[beat.to] <= self.missed + 1]

    patch.setattr(Monitor, "wake", without)


def losses_unnoticed(patch: Patch) -> None:
    patch.setattr(Subscription, "is_lost", lambda self, progress, beat: False)


def previews_taken_for_stable(patch: Patch) -> None:
    """Subscribe from after the previews, as if they were final."""
    subscribe = SwitchIntake._subscribe

    def without(self: SwitchIntake, name: str, now: int) -> Send:
        self.position = max(self.position, self.shown)
        return subscribe(self, name, now)

    patch.setattr(SwitchIntake, "_subscribe", without)


def never_switch(patch: Patch) -> None:
    patch.setattr(
        "holdfast.pipeline.machine.subscription.choose", lambda choice, states, ends: choice
    )


def speaks_before_it_is_consistent(patch: Patch) -> None:
    init = Node.__init__

    def without(self: Node, *given: Any, lost: bool = False, **named: Any) -> None:
        init(self, *given, lost=False, **named)

    patch.setattr(Node, "__init__", without)


def converges_at_once(patch: Patch) -> None:
    init = Node.__init__

    def without(self: Node, *given: Any, **named: Any) -> None:
        init(self, *given, **named)
        if self.place.span < math.inf:
            self.place = replace(self.place, span=0)

    patch.setattr(Node, "__init__", without)


def published_before_logged(patch: Patch) -> None:
    def persist(self: SourceParty, commands: Any) -> None:
        for command in commands:
            self._send(self.source.persisted(command.entry))
            self.process.after(100_000, partial(self._write, command.entry))

    patch.setattr(SourceParty, "_persist", persist)


def gaps_not_told(patch: Patch) -> None:
    def close_gap(self: Line, reader: Any, boundary: int, items: list[Item]) -> None:
        reader.position = max(reader.position, boundary)

    patch.setattr(Line, "_close_gap", close_gap)


def full_lines_go_on(patch: Patch) -> None:
    patch.setattr(Line, "is_full", property(lambda self: False))


def corrections_never_end(patch: Patch) -> None:
    """The fork is kept though the base has caught up."""
    patch.setattr(Node, "_has_caught_up", property(lambda self: False))


def shown_before_the_standby_has_it(patch: Patch) -> None:
    advance = Twin._advance

    def without(self: Twin, now: int) -> list[Command]:
        commands = advance(self, now)
        candidate = self._candidate if commands else None
        return commands if candidate is None else [*commands, Show(candidate.segment)]

    patch.setattr(Twin, "_advance", without)


def alone_without_a_word(patch: Patch) -> None:
    """A proxy that is not heard of is taken for dead."""
    wake = Twin.wake

    def without(self: Twin, now: int) -> list[Command]:
        commands = wake(self, now)
        is_missed = self.is_primary and now >= self._heard + self.patience
        return [*commands, *self.go_alone(now)] if is_missed else commands

    patch.setattr(Twin, "wake", without)


def peers_asked_for_ever(patch: Patch) -> None:
    patch.setattr(Recovery, "is_in_vain", False)


def copies_given_up(patch: Patch) -> None:
    """A peer that is at work on a copy counts like one that says nothing."""

    def wait(self: Recovery, peer: str, offer: StateOffer, now: int) -> list[Any]:
        self._due = now + self._retry
        return []

    patch.setattr(Recovery, "_wait", wait)


def fork_follows_the_fastest(patch: Patch) -> None:
    """Though nothing is missing any more."""
    due = Order._due

    def without(
        self: Order, number: int, correcting: bool, hopeful: bool, failing: bool = True
    ) -> float:
        usual, self._missed = self._missed, lambda number: -math.inf  # type: ignore[assignment, method-assign]
        try:
            return due(self, number, correcting, hopeful and number < self.complete)
        finally:
            self._missed = usual  # type: ignore[method-assign]

    patch.setattr(Order, "_due", without)


def previews_become(change: Callable[[Segment], Segment]) -> Callable[[Patch], None]:
    """Publish other previews than were calculated."""

    def apply(patch: Patch) -> None:
        preview = Line.preview
        patch.setattr(Line, "preview", lambda self, segment: preview(self, change(segment)))

    return apply


def _emptied(segment: Segment) -> Segment:
    return replace(segment, rows=())


def _doubled(segment: Segment) -> Segment:
    return replace(segment, rows=tuple(row for row in segment.rows for _ in range(2)))


def _garbled(segment: Segment) -> Segment:
    return replace(segment, rows=tuple(row._replace(value=-777) for row in segment.rows))


def what_was_shown_forgotten(patch: Patch) -> None:
    tell = Line._tell

    def without(self: Line, name: str) -> list[Send]:
        self._readers[name].shown = self._readers[name].position
        return tell(self, name)

    patch.setattr(Line, "_tell", without)


def acknowledged_on_receipt(patch: Patch) -> None:
    wake = Inputs.wake

    def without(self: Inputs, now: int, safe: int | None) -> list[Send]:
        return wake(self, now, None if safe is None else 1 << 60)

    patch.setattr(Inputs, "wake", without)


def blocked_streams_shown(patch: Patch) -> None:
    state = Node.stream_state

    def without(self: Node, stream: str) -> State:
        return min(state(self, stream), State.UP_FAILURE)

    patch.setattr(Node, "stream_state", without)


def no_excuse_after_a_freeze(patch: Patch) -> None:
    patch.setattr(Order, "excuse", lambda self, until: None)


def log_copied_without_rows(patch: Patch) -> None:
    older = Line.older

    def without(self: Line, before: int) -> LogPiece:
        piece = older(self, before)
        return replace(piece, segments=tuple(replace(each, rows=()) for each in piece.segments))

    patch.setattr(Line, "older", without)


def nothing(*given: Any) -> None:
    """Do nothing."""


def overtaken_messages_dropped(patch: Patch) -> None:
    take = Subscription.take

    def without(self: Subscription, feed: Feed) -> Iterator[Item]:
        return iter(()) if feed.number > self.expected else take(self, feed)

    patch.setattr(Subscription, "take", without)


CRASHES = Options(faults="crashes")
CALM = Options(policy="order", faults="none")
VOTE = Options(policy="vote")
FROZEN = Options("window", faults="crashes")


def clock_stands_while_ahead(patch: Patch) -> None:
    def look(self: Any) -> tuple[int, int]:
        wall = self._wall()
        self._from, self._since = max(self._from, wall), self.passed()
        return self._from, wall

    patch.setattr(Clock, "_look", look)


def usual_delays_of_another_clock(patch: Patch) -> None:
    def excuse(self: Any, now: int) -> None:
        self._not_before = now + self.size

    patch.setattr(Order, "excuse", excuse)


def slow_clocks_never_learned(patch: Patch) -> None:
    def note(self: Any, now: int, end: int) -> None:
        self._lags.append((now - end, end))

    patch.setattr(Order, "_note_lag", note)


MUTATIONS = [
    Mutation("clock stands while ahead", clock_stands_while_ahead, CLOCKS),
    Mutation(
        "clock behind an earlier life",
        lambda patch: patch.setattr(Clock, "not_before", lambda self, time: None),
        CLOCKS,
        13,
    ),
    Mutation("usual delays of another clock", usual_delays_of_another_clock, CLOCKS, 27),
    Mutation("slow clocks never learned", slow_clocks_never_learned, CLOCKS, 732001869),
    Mutation(
        "silence by the machine's clock",
        lambda patch: patch.setattr(EventClock, "_time", lambda self, now, passed: now),
        CLOCKS,
    ),
    Mutation(
        "a frozen process hears silence",
        lambda patch: patch.setattr(EventClock, "_look", lambda self, passed: None),
        CLOCKS,
        138,
    ),
    Mutation("boundary minimum replaced by maximum", boundary_maximum),
    Mutation("UNDO skipped by the reader", undo_skipped_by_reader),
    Mutation("UNDO skipped by the line", without_items(Undo)),
    Mutation("REC_DONE skipped", without_items(RecDone)),
    Mutation("dedup skipped", duplicates_kept, CRASHES),
    Mutation("stagger skipped", no_turns, Options("chain-2"), 30),
    Mutation("ack by one replica only", ack_of_one_replica),
    Mutation("acknowledged before it is saved", acks_before_saved, CRASHES),
    Mutation("quorum 2f", quorum_of_2f, VOTE),
    Mutation("quorum 1", first_vote_wins, VOTE),
    Mutation("split votes not repeated", splits_are_not_repeated, VOTE),
    Mutation("highest claim believed", highest_claim_believed, Options(policy="vote-latest")),
    Mutation("samples not compared", samples_not_compared, Options(policy="sample")),
    Mutation("samples counted", samples_counted, Options(policy="sample", faults="none")),
    Mutation("tentative state not rolled back", tentative_state_kept, Options("window")),
    Mutation("previews before the delay is over", previews_at_once, Options(faults="short")),
    Mutation("previews never", previews_never, seed=9),
    Mutation("delays add up along a chain", clock_from_arrival, Options("chain-3", faults="cuts")),
    Mutation("failed replicas not probed", failed_replicas_given_up),
    Mutation("losses not noticed", losses_unnoticed),
    Mutation("previews taken for stable", previews_taken_for_stable),
    Mutation("replicas never switched", never_switch, seed=103),
    Mutation("speaks before it is consistent", speaks_before_it_is_consistent, CRASHES, 2),
    Mutation("convergence not waited for", converges_at_once, Options("window", faults="crashes")),
    Mutation("published before it is logged", published_before_logged, CRASHES),
    Mutation("gaps not told", gaps_not_told, Options(faults="long")),
    Mutation("full logs go on", full_lines_go_on, Options("last-rows", faults="long"), 56),
    Mutation("fork outlives its use", corrections_never_end, seed=21),
    Mutation("shown before the standby has it", shown_before_the_standby_has_it, CRASHES),
    Mutation("peers asked for ever", peers_asked_for_ever, Options("last-rows", faults="wipes")),
    Mutation("copies given up", copies_given_up, Options(faults="restarts"), 35),
    Mutation("fork follows the fastest", fork_follows_the_fastest, Options(faults="varied"), 19),
    Mutation("previews without rows", previews_become(_emptied), Options("chain-2")),
    Mutation("previews doubled", previews_become(_doubled)),
    Mutation("previews of windows doubled", previews_become(_doubled), Options("window")),
    Mutation("previews of joins doubled", previews_become(_doubled), Options("join")),
    Mutation("previews of joins garbled", previews_become(_garbled), Options("join")),
    Mutation("previews garbled", previews_become(_garbled)),
    Mutation("previews shown again", what_was_shown_forgotten),
    Mutation("acknowledged on receipt", acknowledged_on_receipt),
    Mutation("previews of a blocked stream", blocked_streams_shown, Options("join")),
    Mutation("no excuse after a freeze", no_excuse_after_a_freeze, FROZEN, 149),
    Mutation("log copied without rows", log_copied_without_rows, CRASHES),
    Mutation("never unsubscribed", lambda patch: patch.setattr(Line, "unsubscribe", nothing)),
    Mutation("overtaken messages dropped", overtaken_messages_dropped, Options(faults="none")),
    Mutation("reading confirmed by heartbeats only", reading_not_confirmed, CALM),
    Mutation("alone without an operator's word", alone_without_a_word, Options(faults="cuts")),
]
