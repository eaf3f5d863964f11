"""Rules of the load managers, each taken out once: what the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from holdfast.federation.machine import Account, Load, LoanState, Persist, Start, total
from holdfast.federation.machine import seller as seller_module
from holdfast.federation.machine.borrower import Borrower
from holdfast.federation.machine.context import Office
from holdfast.federation.machine.lender import Lender
from holdfast.federation.machine.messages import Freed, Post, Renewed, Taken
from holdfast.federation.machine.records import (
    Back,
    Ended,
    Failed,
    Handed,
    Holding,
    Promised,
    Served,
    Took,
)
from holdfast.federation.machine.seller import Seller
from holdfast.federation.machine.state import Books
from simulator.federation import (
    Scenario,
    draw_breakdowns,
    draw_cheats,
    draw_dates,
    draw_federation,
    draw_pauses,
    draw_replays,
    step_crashes,
)

__all__ = ["MUTATIONS", "FederationMutation"]

Patch = pytest.MonkeyPatch
SEEDS = 40


@dataclass(frozen=True)
class FederationMutation:
    """A rule that is taken out, and where to look for what comes of it."""

    name: str
    apply: Callable[[Patch], None]
    draw: Callable[[int], Scenario] = draw_federation
    at_steps: bool = False
    back: int | None = 1_000_000

    def scenarios(self) -> Iterator[Scenario]:
        if self.at_steps:
            return step_crashes(self.back)
        return (self.draw(seed) for seed in range(SEEDS))


def promises_do_not_count(patch: Patch) -> None:
    """Two offers are promised the same place."""

    def expected(self: Books) -> Load:
        return total(each.task.load for each in self.holdings.values() if each.is_here)

    patch.setattr(Books, "expected", property(expected))


def taken_at_any_price(patch: Patch) -> None:
    patch.setattr(seller_module, "choose_taken", lambda *given, **named: [k for k, _ in given[2]])


def what_is_given_back_counts(patch: Patch) -> None:
    """Whoever offers and renews takes it to stay."""
    patch.setattr(Office, "staying", property(lambda self: self.books.staying))


def what_comes_home_does_not_count(patch: Patch) -> None:
    """Its place is given away meanwhile."""
    patch.setattr(Lender, "coming", lambda self: Load())


def without_records(kind: type) -> Callable[[Patch], None]:
    """Do and say things without having written them down."""

    def apply(patch: Patch) -> None:
        do = Office.do

        def forgetful(self: Office, command: Any) -> None:
            if not (isinstance(command, Persist) and isinstance(command.record, kind)):
                do(self, command)

        patch.setattr(Office, "do", forgetful)

    return apply


def home_without_a_fence(patch: Patch) -> None:
    """Start at home at the bucket of which one last knew."""

    def fail(self: Lender, loan: Any, now: int) -> None:
        epoch = self._holding(loan.id).next_epoch
        self._forget(loan.id)
        self._office.write(Failed(loan.id, epoch, Account(0, 0)))
        self._come_home(loan, loan.bucket + 1, epoch)

    patch.setattr(Lender, "_fail", fail)


def epochs_stay_the_same(patch: Patch) -> None:
    patch.setattr(Holding, "next_epoch", property(lambda self: self.running))


def handed_over_without_a_halt(patch: Patch) -> None:
    """Whoever hands over goes on computing."""

    def ready(self: Lender, sender: str, loan: Any) -> None:
        found = self._known(sender, loan)
        if found is not None and found.state is LoanState.SHIPPING:
            self._arrived(loan)
            self._office.write(Handed(loan, 1, 0))
            self._commit(found, 0)

    patch.setattr(Lender, "ready", ready)


def nothing_is_said_twice(patch: Patch) -> None:
    patch.setattr(Office, "repeat", lambda self, now: None)


def the_silent_are_waited_for(patch: Patch) -> None:
    patch.setattr(Office, "is_silent", lambda self, partner, now: False)


def nobody_is_told(patch: Patch) -> None:
    patch.setattr(Lender, "tell", lambda self, now: None)


def promises_last_for_ever(patch: Patch) -> None:
    write = Books.write

    def keep(self: Books, record: Any) -> None:
        write(self, replace(record, until=10**15) if isinstance(record, Promised) else record)

    patch.setattr(Books, "write", keep)
    patch.setattr(
        Seller, "release", lambda self, buyer, number: self._office.say(buyer, Freed(number))
    )


def resumed_at_the_beginning(patch: Patch) -> None:
    """After a crash, as if nothing had been computed."""
    fence = Office.fence

    def start(self: Office, task: str, epoch: Any, now: int) -> None:
        if any(each.running == epoch and each.is_here for each in self.books.holdings.values()):
            self.resuming.clear()
            self.do(Start(task, epoch, 10**6))
        else:
            fence(self, task, epoch, now)

    patch.setattr(Office, "fence", start)


def taken_but_not_run(patch: Patch) -> None:
    def commit(self: Borrower, sender: str, said: Any, now: int) -> None:
        if self._held(sender, said.loan) is not None:
            self._office.say(sender, Taken(said.loan))

    patch.setattr(Borrower, "commit", commit)


def failures_are_paid(patch: Patch) -> None:
    """Whoever is told that a loan is over keeps what it has written for it."""
    write = Books.write

    def keep(self: Books, record: Any) -> None:
        write(self, Ended(record.loan) if isinstance(record, Ended) else record)

    patch.setattr(Books, "write", keep)


def renewals_not_booked(patch: Patch) -> None:
    """One side pays for a period of which the other knows nothing."""

    def renew(self: Borrower, sender: str, said: Any, now: int) -> None:
        if self._held(sender, said.loan) is not None:
            self._office.say(sender, Renewed(said.loan, said.period, said.units))

    patch.setattr(Borrower, "renew", renew)


def the_debtor_is_believed(patch: Patch) -> None:
    """What the buyer says that it pays is what it owes."""
    settle = Borrower._settle

    def believe(self: Borrower, holding: Any, offered: Any, least: Any, now: int) -> None:
        settle(self, holding, offered, Account(0, 0), now)

    patch.setattr(Borrower, "_settle", believe)


def claims_are_paid(patch: Patch) -> None:
    """What the seller says that it has served is what it gets."""

    def accept(self: Lender, loan: Any, claim: int, now: int) -> int:
        self._served[loan.id] = max(claim, loan.served)
        return self._served[loan.id]

    patch.setattr(Lender, "_accept", accept)


def dates_are_proofs(patch: Patch) -> None:
    """Whoever was down takes the date's word for how long."""
    patch.setattr(Lender, "_earlier", lambda self, loan: (loan.served, 10**15))


def any_amount_renews(patch: Patch) -> None:
    patch.setattr(Borrower, "_is_worth", lambda self, holding, units: True)


def replays_are_heard(patch: Patch) -> None:
    patch.setattr(Post, "is_new", lambda self, letter: True)
    patch.setattr(Post, "is_fresh", lambda self, letter: True)


def pauses_are_not_excused(patch: Patch) -> None:
    patch.setattr(Office, "look", lambda self, now: 0)


def nobody_loses_its_turn(patch: Patch) -> None:
    patch.setattr(Office, "strike", lambda self, partner, now, task="": None)


def places_are_kept_as_long_as_one_likes(patch: Patch) -> None:
    patch.setattr(seller_module, "longest_hold", lambda contract, rules: 10**15)


def what_is_broken_stays(patch: Patch) -> None:
    patch.setattr(Lender, "_look_after", lambda self, loan, runs, now: None)


def unpaid_work_goes_on(patch: Patch) -> None:
    """Nobody gives back what is not paid or acknowledged."""
    patch.setattr(Borrower, "_left", lambda self, holding: 10**12)


def letters_that_bind_are_not_kept(patch: Patch) -> None:
    patch.setattr(Post, "is_to_keep", lambda self, letter: False)


def cheats(kind: str) -> Callable[[int], Scenario]:
    return partial(draw_cheats, kind=kind)


MUTATIONS = [
    FederationMutation("promises do not count as load", promises_do_not_count),
    FederationMutation("tasks are taken at any price", taken_at_any_price),
    FederationMutation("what is given back counts", what_is_given_back_counts),
    FederationMutation("what comes home does not count", what_comes_home_does_not_count),
    FederationMutation("handed over before it is written", without_records(Handed), at_steps=True),
    FederationMutation("taken before it is written", without_records(Took), at_steps=True),
    FederationMutation("given back before it is written", without_records(Back), at_steps=True),
    FederationMutation("failed before it is written", without_records(Failed)),
    FederationMutation("periods are not written", without_records(Served), at_steps=True),
    FederationMutation("home without a fence", home_without_a_fence),
    FederationMutation("epochs stay the same", epochs_stay_the_same),
    FederationMutation("handed over without a halt", handed_over_without_a_halt),
    FederationMutation("nothing is said twice", nothing_is_said_twice),
    FederationMutation("the silent are waited for", the_silent_are_waited_for),
    FederationMutation("nobody is told", nobody_is_told),
    FederationMutation("promises last for ever", promises_last_for_ever),
    FederationMutation("resumed anywhere", resumed_at_the_beginning),
    FederationMutation("taken but not run", taken_but_not_run),
    FederationMutation("failures are paid", failures_are_paid),
    FederationMutation("renewals are not booked", renewals_not_booked),
    FederationMutation("the debtor is believed", the_debtor_is_believed, cheats("pays_nothing")),
    FederationMutation("claims are paid", claims_are_paid, cheats("claims_more")),
    FederationMutation("dates are proofs", dates_are_proofs, draw_dates),
    FederationMutation("any amount renews", any_amount_renews, cheats("renews_for_nothing")),
    FederationMutation("replays are heard", replays_are_heard, draw_replays),
    FederationMutation("pauses are not excused", pauses_are_not_excused, draw_pauses),
    FederationMutation("nobody loses its turn", nobody_loses_its_turn, cheats("refuses_later")),
    FederationMutation("places are kept", places_are_kept_as_long_as_one_likes, cheats("hoards")),
    FederationMutation("what is broken stays", what_is_broken_stays, draw_breakdowns),
    FederationMutation("unpaid work goes on", unpaid_work_goes_on, cheats("never_hears")),
    FederationMutation("letters are not kept", letters_that_bind_are_not_kept),
]
