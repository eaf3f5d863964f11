"""Rules of replicas that share work, each taken out once: what the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.pipeline.machine.sharing import Guarantee, Sink
from holdfast.pipeline.machine.sharing.batching import Repeats
from holdfast.pipeline.machine.sharing.membership import Membership, Ring
from holdfast.pipeline.machine.sharing.messages import Deliver
from holdfast.pipeline.machine.sharing.ownership import Book
from holdfast.pipeline.machine.sharing.tables import DeliveryTable, Marks, SharedTable, Standing
from holdfast.pipeline.machine.sharing.tuple_tables import Desk, Recovery
from holdfast.pipeline.machine.sharing.work import Entry, Work
from simulator.sharing import Scenario, draw_sharing, step_kills

__all__ = ["MUTATIONS", "SharingMutation"]

Patch = pytest.MonkeyPatch
SEEDS = 60


@dataclass(frozen=True)
class SharingMutation:
    """A rule that is taken out, and where to look for what comes of it."""

    name: str
    apply: Callable[[Patch], None]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    at_steps: bool = False

    def scenarios(self) -> Iterator[Scenario]:
        if self.at_steps:
            return step_kills(self.guarantee)
        return (draw_sharing(seed, self.guarantee) for seed in range(SEEDS))


def no_filter_at_the_sink(patch: Patch) -> None:
    def take(self: Sink, item: Deliver) -> None:
        self._taken.append((item.id, item.value))
        self._post.confirm(item.origin, item.id, self.rules.hops)

    patch.setattr(Sink, "_take", take)


def sent_on_before_colleagues_know(patch: Patch) -> None:
    """Steps 5 to 8 without step 4: what the dead had in hand is in nobody's table."""
    ask = Work._ask

    def without(self: Work, entry: Entry) -> None:
        if entry.phase.value == "recording":
            entry.waiting.clear()
        ask(self, entry)

    patch.setattr(Work, "_ask", without)


def dropped_when_received(patch: Patch) -> None:
    """The origin forgets a tuple at step 6 of the receiver, not at its step 8."""
    confirm = DeliveryTable.confirm

    def early(self: DeliveryTable, tuple_id: Any, level: int, now: int) -> Any:
        return confirm(self, tuple_id, self._rules.hops if level >= 0 else level, now)

    patch.setattr(DeliveryTable, "confirm", early)


def pending_records_not_recovered(patch: Patch) -> None:
    patch.setattr(Recovery, "look", lambda self, in_hand: None)
    patch.setattr(DeliveryTable, "overdue", _only_unanswered)


def _only_unanswered(self: DeliveryTable, now: int) -> Any:
    found = [each for each in self._kept.values() if each.due <= now and each.level < 0]
    for each in found:
        each.due = now + self._rules.retry
    return found


def nothing_sent_again(patch: Patch) -> None:
    patch.setattr(DeliveryTable, "overdue", lambda self, now: [])


def nobody_takes_over(patch: Patch) -> None:
    patch.setattr(Ring, "taker", lambda self, failed: None)


def the_dead_are_waited_for(patch: Patch) -> None:
    patch.setattr(Work, "look", lambda self, now: None)


def marks_of_the_fastest(patch: Patch) -> None:
    """The most that any of those above says, and not the least."""

    def raise_(self: Marks, origin: str) -> None:
        most = max((said.get(origin, 0) for said in self._said.values()), default=0)
        self._table.raise_mark(origin, most)

    patch.setattr(Marks, "_raise", raise_)
    patch.setattr(SharedTable, "passed", SharedTable.mark)


def marks_never_raised(patch: Patch) -> None:
    patch.setattr(SharedTable, "raise_mark", lambda self, origin, mark: None)


def ids_by_turn_of_processing(patch: Patch) -> None:
    """Ids that depend on who processes a tuple, and when."""
    outputs = Desk._outputs

    def numbered(self: Desk, tuple_id: Any, value: Any) -> Any:
        found = outputs(self, tuple_id, value)
        if len(found) > 1 and self._members.me.endswith("1"):
            found = [
                type(each)(other.id, each.value, each.operator, each.seat)
                for each, other in zip(found, reversed(found), strict=True)
            ]
        return found

    patch.setattr(Desk, "_outputs", numbered)


def never_back(patch: Patch) -> None:
    patch.setattr(Membership, "may_return", lambda self, now: False)


def repeats_not_noticed(patch: Patch) -> None:
    patch.setattr(Repeats, "is_new", lambda self, sender, life, number: True)


def former_lives_are_answered(patch: Patch) -> None:
    """A seat taken over in a former life is not claimed again."""

    def come_back(self: Membership, now: int) -> None:
        self.is_active = True
        self._beat = now

    patch.setattr(Membership, "come_back", come_back)


def dead_ones_keep_their_seats(patch: Patch) -> None:
    """Address books are not changed by a take-over."""
    patch.setattr(Book, "sitter", lambda self, seat: self.replicas[seat])


def known_tuples_taken_for_done(patch: Patch) -> None:
    """A pending tuple that comes again is confirmed as if it were done."""
    standing = SharedTable.standing

    def done(self: SharedTable, tuple_id: Any) -> Standing:
        found = standing(self, tuple_id)
        return Standing.DONE if found is Standing.PENDING else found

    patch.setattr(SharedTable, "standing", done)


AT_LEAST, AT_MOST = Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE

MUTATIONS = [
    SharingMutation("no filter at the sink", no_filter_at_the_sink),
    SharingMutation(
        "sent on before colleagues know", sent_on_before_colleagues_know, at_steps=True
    ),
    SharingMutation("dropped when it is received", dropped_when_received, at_steps=True),
    SharingMutation("records of the dead not recovered", pending_records_not_recovered, AT_LEAST),
    SharingMutation("nothing sent again", nothing_sent_again, AT_LEAST),
    SharingMutation("nobody takes over", nobody_takes_over),
    SharingMutation("the dead are waited for", the_dead_are_waited_for),
    SharingMutation("marks of the fastest", marks_of_the_fastest),
    SharingMutation("marks never raised", marks_never_raised),
    SharingMutation("ids that depend on who gives them", ids_by_turn_of_processing),
    SharingMutation("never back", never_back),
    SharingMutation("repeats not noticed", repeats_not_noticed, AT_MOST),
    SharingMutation("back without a claim", former_lives_are_answered),
    SharingMutation("books not changed by a take-over", dead_ones_keep_their_seats),
    SharingMutation("known tuples taken for done", known_tuples_taken_for_done),
]
