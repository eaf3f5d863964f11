"""A partner that says what it likes: the money and the tasks of the other are safe all the same.

Each test is an attack of one side, with letters that it may really sign; the other side is honest.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from holdfast.federation.machine import (
    SECOND,
    Books,
    Contract,
    Fence,
    Letter,
    Load,
    LoanId,
    LoanState,
    Send,
    State,
    Task,
    reconcile,
)
from holdfast.federation.machine import messages as letters
from holdfast.federation.machine.borrower import UNHEARD
from holdfast.federation.machine.messages import (
    NONE,
    OVERTAKEN,
    Alive,
    Answer,
    Beat,
    Bound,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    Hello,
    Message,
    Offer,
    Ready,
    Recall,
    Refuse,
    Release,
    Renew,
    Renewed,
    Report,
    Ship,
    Shipment,
    Taken,
    Takeover,
)
from holdfast.federation.machine.records import Claimed, Counted
from holdfast.federation.machine.seller import VAIN
from holdfast.federation.process.records import pack
from tests.federation.machine.rig import RULES, Rig, ones

DURATION = 60 * SECOND
AB = Contract("a", "b", 4, 4, duration=DURATION)
LOAN = LoanId("a", 1, "t0")


def lent() -> Rig:
    """One unit of load is with b, for 4 a minute."""
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.has_readers = True
    rig.settle()
    assert rig.runs("b") == ["t0"]
    return rig


def buyer_says(rig: Rig, *messages: object) -> None:
    """The buyer is a cheat from now on: what it would say itself is lost."""
    for message in messages:
        rig.say("a", "b", message)


def take_as_buyer(rig: Rig, units: float = 1.0) -> LoanId:
    """Have b take a task, by letters that no manager has written."""
    rig.say("a", "b", Offer(7, 4, (Task("x", Load(units)),), SECOND))
    rig.now += RULES.gather
    rig.wake("b")
    loan = LoanId("a", 7, "x")
    buyer_says(rig, Ship(7, 4, (Shipment("x", (1,)),)), Commit(loan, 3, 4, units, DURATION))
    assert rig.take(Taken) == [Taken(loan)]
    return loan


def serve(rig: Rig, loan: LoanId, span: int, *, receipts: bool = True) -> None:
    """Have b run it while the buyer beats, and perhaps acknowledges."""
    end = rig.now + span
    while rig.now < end:
        rig.now += SECOND
        rig.wake("b")
        found = [report for each in rig.take(Alive) for report in each.reports]
        receipt = tuple((loan, report.served) for report in found) if receipts else ()
        buyer_says(rig, Beat(receipt))


# What a buyer may try.


@pytest.mark.parametrize("paid", [(0, 0), (1, 0), (5, 1), (0, 10**18), (-3, -5), (1, SECOND)])
def test_the_word_of_a_buyer_erases_nothing_that_it_has_acknowledged(paid) -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION)
    buyer_says(rig, Renew(loan, 1, 1.0))
    assert rig.take(Renewed) == [Renewed(loan, 1, 1.0)]
    serve(rig, loan, DURATION // 2)
    buyer_says(rig, Cancel(loan, *paid))
    ledger = rig.managers["b"].books.ledger
    assert ledger.balance("a") == pytest.approx(4 * 1.5, rel=0.02)
    (dispute,) = ledger.disputes.values()
    assert (dispute.loan, dispute.partner) == (loan, "a")
    assert dispute.theirs < dispute.mine
    (told,) = rig.take(Cancelled)
    assert told.amount == dispute.mine, "and it is told what it owes"
    assert rig.runs("b") == [], "the task is its own, and is ended"
    again = Books("b", rig.journals["b"])
    assert list(again.ledger) == list(ledger)
    assert again.ledger.disputes == ledger.disputes
    assert Books("b", [again.summary()]).summary() == again.summary()


def test_a_cancel_that_pays_what_was_served_is_no_dispute() -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION // 2)
    buyer_says(rig, Cancel(loan, 1, DURATION // 2))
    ledger = rig.managers["b"].books.ledger
    assert ledger.balance("a") == pytest.approx(2)
    assert ledger.disputes == {}


def test_a_buyer_that_acknowledges_nothing_gets_one_period_at_most() -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION, receipts=False)
    buyer_says(rig, Renew(loan, 1, 1.0))
    assert rig.take(Renewed) == [], "not before there is a receipt"
    serve(rig, loan, 2 * RULES.patience + SECOND, receipts=False)
    assert GiveBack(loan) in rig.take(GiveBack)
    serve(rig, loan, 4 * RULES.patience, receipts=False)
    assert rig.runs("b") == []
    assert any(each.loan == loan for each in rig.take(HandBack))


def test_who_is_killed_again_and_again_does_not_serve_for_nothing_for_ever() -> None:
    """The buyer is gone; the seller remembers what it has served, but for twice `patience`."""
    rig = Rig([AB], a=[], b=[])
    take_as_buyer(rig)
    begun = rig.now
    deaths = 0
    while rig.runs("b") and deaths < 40:
        rig.fall_silent(3 * RULES.patience, "b")
        rig.crash("b")
        deaths += 1
    assert rig.runs("b") == []
    allowed = DURATION + 6 * RULES.patience + deaths * 2 * RULES.patience
    assert rig.now - begun <= allowed
    assert Books("b", rig.journals["b"]).summary() == rig.managers["b"].books.summary()


def test_a_seller_with_receipts_writes_down_no_service_of_its_own() -> None:
    rig = lent()
    rig.settle(DURATION // 2)
    kinds = {type(each) for each in rig.journals["b"]}
    assert Counted in kinds
    assert Claimed not in kinds


def test_a_buyer_that_acknowledges_and_does_not_order_is_served_on_at_its_own_expense() -> None:
    """It may be about to take its task home: that is paid by what it acknowledges."""
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, 2 * DURATION)
    buyer_says(rig, Cancel(loan, 1, DURATION))
    ledger = rig.managers["b"].books.ledger
    assert ledger.balance("a") == pytest.approx(8, rel=0.02)
    assert len(ledger.disputes) == 1


@pytest.mark.parametrize("units", [0.0025, 0.0, -1.0, math.nan, math.inf, 0.8])
def test_a_renewal_is_held_against_price_and_measured_load(units: float) -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    rig.obey("b", rig.managers["b"].measure({"x": Load(1.0)}))
    serve(rig, loan, DURATION)
    buyer_says(rig, Renew(loan, 1, units))
    assert rig.take(Renewed) == []
    assert len(rig.managers["b"].books.ledger) == 1


def test_a_repeated_renewal_is_answered_with_what_was_agreed() -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION)
    buyer_says(rig, Renew(loan, 1, 1.0), Renew(loan, 1, 0.01), Renew(loan, 0, 0.01))
    assert rig.take(Renewed) == [Renewed(loan, 1, 1.0), Renewed(loan, 1, 1.0), Renewed(loan, 0, 1)]


def test_what_has_grown_beyond_what_is_paid_comes_home_and_goes_out_as_what_it_is() -> None:
    rig = Rig([AB], a=[*ones("t", 4), Task("big", Load(0.5))], b=[])
    rig.settle()
    assert rig.runs("b") == ["big"] or rig.runs("b") == ["t0"]
    (name,) = rig.runs("b")
    rig.obey("b", rig.managers["b"].measure({name: Load(2.0)}))
    rig.settle(90 * SECOND)
    ledger = rig.managers["a"].books.ledger
    assert max(each.units for each in ledger) == 2.0
    assert reconcile(ledger, rig.managers["b"].books.ledger) == []


@pytest.mark.parametrize(
    "change",
    [
        {"price": 3.9},
        {"units": 0.5},
        {"duration": 2 * DURATION},
        {"duration": None},
        {"bucket": -1},
    ],
    ids=str,
)
def test_what_is_handed_over_is_paid_as_it_was_promised(change) -> None:
    rig = Rig([AB], a=[], b=[])
    rig.say("a", "b", Offer(7, 4, (Task("x", Load(1)),), SECOND))
    rig.now += RULES.gather
    rig.wake("b")
    loan = LoanId("a", 7, "x")
    commit = replace(Commit(loan, 3, 4, 1, DURATION), **change)
    buyer_says(rig, Ship(7, 4, (Shipment("x", (1,)),)), commit)
    assert rig.take(Refuse) == [Refuse(loan)]
    assert rig.managers["b"].books.holdings == {}


def test_a_buyer_cannot_have_a_task_back_before_what_it_has_ordered_is_served() -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION // 2)
    buyer_says(rig, Recall(loan), Takeover(loan))
    assert rig.runs("b") == ["x"]
    serve(rig, loan, DURATION // 2)
    buyer_says(rig, Recall(loan), Takeover(loan))
    assert rig.runs("b") == []
    assert any(each.loan == loan for each in rig.take(HandBack))


@pytest.mark.parametrize("paid", [(0, 0), (1, 30 * SECOND), (0, DURATION)])
def test_a_buyer_that_pays_less_for_what_it_took_back_stays_in_debt(paid) -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION)
    buyer_says(rig, Recall(loan), Takeover(loan), Closed(loan, *paid))
    books = rig.managers["b"].books
    assert books.holdings == {}
    assert books.ledger.balance("a") == pytest.approx(4, rel=0.02)
    assert len(books.ledger.disputes) == 1


def test_who_is_disputed_with_gets_nothing_for_a_while_each_time_longer() -> None:
    rig = Rig([AB], a=[], b=[])
    waits = []
    for number in (7, 8, 9):
        begun = rig.now
        while True:
            rig.say("a", "b", Offer(number, 4, (Task("x", Load(1)),), SECOND))
            rig.now += RULES.gather
            rig.wake("b")
            if any(each.tasks for each in rig.take(Answer)):
                break
            rig.now += SECOND
        waits.append(rig.now - begun)
        loan = LoanId("a", number, "x")
        buyer_says(rig, Ship(number, 4, (Shipment("x", (1,)),)))
        buyer_says(rig, Commit(loan, 3, 4, 1, DURATION))
        serve(rig, loan, SECOND * 20)
        buyer_says(rig, Cancel(loan, 0, 0))
    assert waits[0] < SECOND
    assert DURATION <= waits[1] < 2 * DURATION <= waits[2] < 3 * DURATION


def takes(rig: Rig, number: int, partner: str = "b") -> int:
    """Offer one task until it is taken; the time that this took."""
    begun = rig.now
    rig.posted.clear()
    while rig.now - begun < 200 * DURATION:
        rig.say("a", partner, Offer(number, 4, (Task("x", Load(1)),), SECOND))
        rig.now += RULES.gather
        rig.wake(partner)
        if any(each.tasks for each in rig.take(Answer)):
            break
        rig.now += SECOND
    return rig.now - begun


@pytest.mark.parametrize("receipted", [0, 1])
@pytest.mark.parametrize("share", [0.3, 0.95])
def test_a_buyer_that_ends_what_it_has_not_acknowledged_waits_longer_each_time(
    receipted: int, share: float
) -> None:
    """No claim can be shown to others, so there is no dispute; else it was served for ever."""
    rig = Rig([AB], a=[], b=[])
    served = waited = 0
    for number in range(7, 27):
        waited += takes(rig, number)
        loan = LoanId("a", number, "x")
        buyer_says(rig, Ship(number, 4, (Shipment("x", (1,)),)))
        buyer_says(rig, Commit(loan, 3, 4, 1, DURATION))
        if receipted:
            buyer_says(rig, Beat(((loan, receipted),)))
        begun = rig.now
        serve(rig, loan, int(share * DURATION), receipts=False)
        served += rig.now - begun
        buyer_says(rig, Cancel(loan, receipted, receipted))
    assert waited > 10 * served


def test_a_buyer_that_pays_a_little_less_each_time_waits_in_the_end() -> None:
    """Within what beats may lag behind, so it is no dispute."""
    rig = Rig([AB], a=[], b=[])
    waits = []
    for number in range(7, 20):
        waits.append(takes(rig, number))
        loan = LoanId("a", number, "x")
        buyer_says(rig, Ship(number, 4, (Shipment("x", (1,)),)))
        buyer_says(rig, Commit(loan, 3, 4, 1, DURATION))
        serve(rig, loan, DURATION - RULES.patience, receipts=True)
        serve(rig, loan, RULES.patience, receipts=False)
        buyer_says(rig, Recall(loan), Takeover(loan))
        buyer_says(rig, Closed(loan, 1, DURATION - RULES.patience))
    assert rig.managers["b"].books.ledger.disputes == {}
    assert sum(wait >= DURATION for wait in waits) >= 2


def test_what_is_lost_by_letters_that_lag_behind_costs_nobody_its_turn() -> None:
    rig = Rig([AB], a=[], b=[])
    for number in range(7, 40):
        assert takes(rig, number) < SECOND
        loan = LoanId("a", number, "x")
        buyer_says(rig, Ship(number, 4, (Shipment("x", (1,)),)))
        buyer_says(rig, Commit(loan, 3, 4, 1, DURATION))
        serve(rig, loan, DURATION)
        buyer_says(rig, Recall(loan), Takeover(loan))
        buyer_says(rig, Closed(loan, 1, DURATION - SECOND))


def test_a_debtor_is_not_forgiven_for_what_it_sells_but_after_a_long_time() -> None:
    rig = Rig([AB, Contract("b", "a", 4, 4, duration=DURATION)], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION // 2)
    buyer_says(rig, Cancel(loan, 0, 0))
    office = rig.managers["b"]._office
    office.clear("a")
    assert office.is_buyer_held_off("a", rig.now)
    assert not office.is_held_off("a", rig.now), "it may sell"
    for _ in range(3):
        office.strike_buyer("a", rig.now)
    rig.now += 64 * DURATION
    office.strike_buyer("a", rig.now)
    assert office.is_buyer_held_off("a", rig.now + 10 * DURATION)
    rig.now += 100 * DURATION
    office.strike_buyer("a", rig.now)
    assert not office.is_buyer_held_off("a", rig.now + DURATION)


def test_reservations_end_with_the_duration_and_are_few() -> None:
    """Four offers with a hold of thirty years must not keep out everybody else."""
    other = Contract("c", "b", 4, 4, duration=DURATION)
    rig = Rig([AB, other], a=[], b=[], c=ones("v", 6))
    for number in range(1, 9):
        rig.say("a", "b", Offer(number, 4, (Task(f"x{number}", Load(0.5)),), 10**15))
        rig.now += RULES.gather
        rig.obey("b", rig.managers["b"].wake(rig.now))
    promises = rig.managers["b"].books.promises
    assert len(promises) == 4
    assert max(each.until for each in promises.values()) <= rig.now + DURATION
    rig.settle(3 * DURATION)
    assert promises == {}
    assert rig.runs("b") == ["v0", "v1"]


def test_who_never_takes_what_is_asked_for_does_not_keep_others_from_being_asked() -> None:
    """Offers in step, round after round: a place is kept for the better paid, who does not take it,
    and there is no room for the other meanwhile."""
    rig = Rig([Contract("x", "s", 10, 2), Contract("y", "s", 4, 1)], x=[], y=[], s=ones("s", 3))
    asked = []
    for number in range(1, VAIN + 4):
        rig.say("x", "s", Offer(number, 2, (Task("x0", Load(1)),), SECOND))
        rig.say("y", "s", Offer(number, 1, (Task("y0", Load(1)),), SECOND))
        rig.now += RULES.gather
        rig.wake("s")
        answers = [(to, said) for _, to, said in rig.posted if isinstance(said, Answer)]
        asked.append({to: said.price for to, said in answers if said.tasks})
        rig.posted.clear()
        rig.say("x", "s", Release(number))
        rig.say("y", "s", Release(number))
    assert asked[:VAIN] == VAIN * [{"x": 3.5}]
    assert asked[VAIN:] == 3 * [{"y": 3.5, "x": 4.5}]


def test_a_place_that_is_never_taken_up_is_not_kept_again_at_once() -> None:
    rig = Rig([AB], a=[], b=[])
    for number in (1, 2):
        rig.say("a", "b", Offer(number, 4, (Task("x", Load(1)),), SECOND))
        rig.now += 2 * SECOND
        rig.wake("b")
        rig.now += 2 * SECOND
        rig.wake("b")
    assert [each.tasks for each in rig.take(Answer)] == [("x",), ()]


def test_what_is_shipped_and_never_handed_over_does_not_take_a_place_for_ever() -> None:
    rig = Rig([AB], a=[], b=[])
    rig.say("a", "b", Offer(7, 4, (Task("x", Load(1)),), SECOND))
    rig.now += RULES.gather
    rig.wake("b")
    buyer_says(rig, Ship(7, 4, (Shipment("x", (1,)),)))
    assert rig.managers["b"].books.expected == Load(1)
    serve(rig, LoanId("a", 7, "x"), 2 * RULES.prepare + 2 * SECOND)
    assert rig.managers["b"].books.expected == Load(0)
    assert Refuse(LoanId("a", 7, "x")) in rig.take(Refuse)


# What a seller may try.


def test_a_seller_is_paid_for_what_it_serves_and_not_for_what_it_claims() -> None:
    rig = lent()
    rig.now += 10 * SECOND
    rig.say("b", "a", Alive((Report(LOAN, Load(1), True, 10**15),)))
    rig.say("b", "a", HandBack(LOAN, 9, 50, 10**15))
    ledger = rig.managers["a"].books.ledger
    assert ledger.balance("b") == pytest.approx(-4 * 11 / 60, rel=0.03)
    (dispute,) = ledger.disputes.values()
    assert dispute.theirs > dispute.mine
    assert len(rig.runs("a")) == 5


@pytest.mark.parametrize("periods", [1, 50])
def test_a_date_that_was_set_forward_is_no_proof_of_service(periods: int) -> None:
    """The buyer was down for a moment, and takes it for an hour: so much is claimed."""
    rig = lent()
    rig.settle(10 * SECOND)
    rig.now += 3600 * SECOND
    rig.crash("a")
    rig.say("b", "a", Alive((Report(LOAN, Load(1), True, 3600 * SECOND),)))
    rig.say("b", "a", HandBack(LOAN, 9, periods, 3600 * SECOND))
    ledger = rig.managers["a"].books.ledger
    most = DURATION + UNHEARD * RULES.patience
    assert ledger.balance("b") >= -4 * most / DURATION * 1.02
    assert len(ledger.disputes) == 1


def test_a_seller_is_paid_little_more_for_each_time_that_a_buyer_dies() -> None:
    rig = lent()
    rig.now += 3600 * SECOND
    deaths = 10
    for _ in range(deaths):
        rig.crash("a")
        rig.say("b", "a", Alive((Report(LOAN, Load(1), True, 10**15),)))
    rig.say("b", "a", HandBack(LOAN, 9, 1, 10**15))
    most = 2 * DURATION + deaths * UNHEARD * RULES.patience
    assert rig.managers["a"].books.ledger.balance("b") >= -4 * most / DURATION * 1.02


@pytest.mark.parametrize("is_set_back", [False, True])
@pytest.mark.parametrize("down", [20, 70, 85, 95, 3600])
def test_an_honest_seller_is_paid_for_all_that_it_served_while_its_buyer_was_down(
    down: int, is_set_back: bool
) -> None:
    """Until it gave up: it cannot know when the other is there again."""
    rig = lent()
    rig.settle(10 * SECOND)
    rig.fall_silent(down * SECOND, "b")
    if is_set_back:
        rig.behind["a"] = rig.now - rig.managers["a"].books.latest
    rig.crash("a")
    rig.say("a", "b", Hello())
    rig.settle(2 * DURATION)
    ledgers = [rig.managers[name].books.ledger for name in "ab"]
    assert reconcile(*ledgers) == []
    assert not any(each.disputes for each in ledgers)
    served = min(10 + down, DURATION // SECOND + 6 * RULES.patience // SECOND)
    assert ledgers[1].balance() >= 4 * served / 60 * 0.98


def test_a_seller_that_gives_back_at_once_is_paid_for_that_time_and_loses_its_turn() -> None:
    honest = Contract("a", "c", 4, 4, duration=DURATION, rank=1)
    rig = Rig([AB, honest], a=ones("t", 5), b=[], c=[])
    rig.settle()
    assert rig.runs("b") == ["t0"]
    rig.say("b", "a", HandBack(LOAN, 9, 1, 0))
    ledger = rig.managers["a"].books.ledger
    assert ledger.balance("b") > -0.1
    rig.posted.clear()
    rig.wake("a")
    rig.now += 10 * SECOND
    rig.wake("a")
    assert [to for _, to, each in rig.posted if isinstance(each, Offer)] == ["c"]


@pytest.mark.parametrize("way", ["refuses", "never gets ready", "dies when handed over"])
def test_who_accepts_and_then_does_not_run_it_does_not_starve_the_others(way: str) -> None:
    cheat = replace(AB, high=3.9, low=3.9)
    rig = Rig([cheat, Contract("a", "c", 4, 4, duration=DURATION)], a=ones("t", 5), b=[], c=[])
    offers = {"b": 0, "c": 0}

    def cheats() -> None:
        """Has the place of b."""
        waiting, rig.posted = rig.posted, []
        for sender, to, message in waiting:
            if isinstance(message, Offer):
                offers[to] += 1
            if to != "b":
                rig.say(sender, to, message)
                continue
            match message:
                case Offer(number, price, tasks):
                    rig.say("b", "a", Answer(number, price, tuple(task.id for task in tasks)))
                case Ship(number, _, shipments):
                    for shipment in shipments:
                        loan = LoanId("a", number, shipment.task)
                        if way == "refuses":
                            rig.say("b", "a", Refuse(loan))
                        elif way == "dies when handed over":
                            rig.say("b", "a", Ready(loan))
                case Commit(loan):
                    rig.say("b", "a", Refuse(loan))
                case Cancel(loan):
                    rig.say("b", "a", Cancelled(loan, 0, 0, 0.0))

    rig.has_readers = True
    for _ in range(600):
        rig.wake()
        cheats()
        rig.now += SECOND // 4
        if rig.runs("c"):
            break
    assert rig.runs("c") == ["t0"], offers
    assert offers["b"] <= 2
    for _ in range(20 * 60 * 4):
        rig.wake()
        cheats()
        rig.now += SECOND // 4
    assert offers["b"] <= 8, "and it is asked less and less"


def test_a_partner_that_cannot_run_a_task_says_so_the_next_time() -> None:
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.unable = {"t0"}
    for _ in range(4):
        rig.settle(DURATION)
    assert rig.runs("b") != ["t0"]
    assert len([1 for who, each in rig.commands if getattr(each, "source", "") == "a"]) <= 4
    assert rig.runs("b"), "it gets another one"


def test_a_stage_that_fails_at_its_partner_comes_home() -> None:
    rig = lent()
    rig.obey("b", rig.managers["b"].measure({}, frozenset({"t0"})))
    rig.settle(RULES.prepare - 2 * SECOND)
    assert rig.runs("b") == ["t0"]
    rig.settle(4 * SECOND)
    assert len(rig.runs("a")) == 5
    paid = -rig.managers["a"].books.ledger.balance("b")
    assert paid < 4 * 3 / 60, "it is not paid for what it did not run"


def test_a_stage_that_fails_again_and_again_comes_home_and_one_that_fails_once_does_not() -> None:
    for down, up, comes_home in ((3, 2, True), (2, 4, False)):
        rig = lent()
        for _ in range(40):
            rig.obey("b", rig.managers["b"].measure({}, frozenset({"t0"})))
            rig.settle(down * SECOND)
            rig.obey("b", rig.managers["b"].measure({}, frozenset()))
            rig.settle(up * SECOND)
            if rig.runs("b") != ["t0"]:
                break
        assert (rig.runs("b") != ["t0"]) == comes_home


def test_a_task_that_does_not_start_at_home_is_tried_again_when_it_is_given_back_again() -> None:
    rig = lent()
    rig.unable = {"t0"}
    rig.say("b", "a", GiveBack(LOAN))
    assert rig.take(Takeover) == []
    rig.unable.clear()
    rig.say("b", "a", GiveBack(LOAN))
    assert rig.take(Takeover) == [Takeover(LOAN)]
    rig.say("b", "a", GiveBack(LOAN))
    assert rig.take(Takeover) == [], "it is under way"


def test_a_partner_that_has_lost_its_disk_loses_its_tasks() -> None:
    rig = lent()
    rig.journals["b"].clear()
    rig.crash("b")
    rig.settle(2 * RULES.prepare)
    assert len(rig.runs("a")) + len(rig.runs("b")) == 5
    assert len(rig.managers["a"].books.lent) == len(rig.runs("b"))


def test_a_renewal_that_is_agreed_to_after_the_loan_has_failed_costs_nothing() -> None:
    """Both are honest; one was silent for too long, and its readers have not answered yet."""
    rig = lent()
    rig.settle(DURATION - 2 * SECOND)
    rig.posted.clear()
    rig.has_readers = False
    rig.fall_silent(2 * SECOND, "a")
    rig.wake("b")
    while not (renewals := rig.take(Renew)):
        rig.now += SECOND // 4
        rig.wake("a")
    rig.fall_silent(2 * RULES.patience, "a")
    assert rig.managers["a"].books.loan(LOAN).state is LoanState.FENCING
    entries = list(rig.managers["a"].books.ledger)
    rig.say("b", "a", Renewed(LOAN, 1, renewals[0].units))
    assert list(rig.managers["a"].books.ledger) == entries
    rig.has_readers = True
    rig.fall_silent(40 * SECOND, "a")
    rig.settle(60 * SECOND)
    ledgers = [rig.managers[name].books.ledger for name in "ab"]
    assert reconcile(*ledgers) == []
    assert not any(each.disputes for each in ledgers)


def test_a_buyer_that_has_lost_its_disk_can_hand_out_load_again() -> None:
    """Its offers are not numbered as old ones are: they would be refused, one each duration."""
    rig = Rig([AB], a=ones("t", 5), b=[])
    for number in range(1, 40):
        rig.say("a", "b", Offer(number, 4, (Task("x", Load(1)),), SECOND))
        rig.now += RULES.gather
        rig.wake("b")
        rig.say("a", "b", Release(number))
    rig.posted.clear()
    rig.journals["a"].clear()
    rig.crash("a")
    for task in ones("t", 5):
        rig.obey("a", rig.managers["a"].own(task))
    rig.settle(2 * DURATION)
    assert rig.runs("b") == ["t0"]


# Pauses.


@pytest.mark.parametrize("who", ["a", "b", "both"])
@pytest.mark.parametrize("gap", [15 * SECOND, 3600 * SECOND])
def test_a_pause_or_a_step_of_the_clock_moves_nothing_home_by_itself(who: str, gap: int) -> None:
    rig = Rig([AB, Contract("b", "a", 1, 1)], a=ones("t", 7), b=[])
    rig.settle(5 * SECOND)
    before = rig.runs("b")
    assert len(before) == 3
    periods = len(rig.managers["a"].books.ledger)
    rig.now += gap
    # Whoever was paused wakes before it hears what has come meanwhile.
    for name in "ab" if who == "both" else who:
        rig.wake(name)
    rig.settle(5 * SECOND)
    assert rig.runs("b") == before
    assert not [each for _, each in rig.commands if isinstance(each, Fence)]
    ledgers = [rig.managers[name].books.ledger for name in "ab"]
    assert reconcile(*ledgers) == []
    assert len(ledgers[0]) - periods in (0, 3), "nobody pays more than one period ahead"
    assert not any(each.failed for each in rig.managers.values())


def test_a_dead_partner_is_found_though_one_is_paused_again_and_again() -> None:
    rig = lent()
    for _ in range(6):
        rig.fall_silent(3 * SECOND, "a")
        rig.now += 4 * SECOND
    assert any(isinstance(each, Fence) for _, each in rig.commands)


def test_an_answer_that_waited_while_one_was_paused_counts() -> None:
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.wake("a")
    (offer,) = rig.take(Offer)
    rig.now += 10 * RULES.answer
    rig.wake("a")
    assert rig.take(Release) == []
    rig.say("b", "a", Answer(offer.number, 4, ("t0",)))
    assert len(rig.take(Ship)) == 1


def test_overruled_tasks_wait_for_the_word_of_their_lender() -> None:
    rig = lent()
    rig.obey("b", rig.managers["b"].refused("t0", (1,), rig.now))
    assert rig.managers["b"].books.holdings[LOAN].state is State.OVERRULED


# Letters.


@pytest.mark.parametrize(
    "message",
    [
        Offer(8, 4, (Task("y", Load(1e308)), Task("z", Load(1e308))), SECOND),
        Offer(8, 4, (Task("y", Load(0, 1e308)),), SECOND),
        Offer(1 << 63, 4, (Task("y", Load(1)),), SECOND),
        Ship(8, 4, (Shipment("y", (1 << 63,)),)),
        Renew(LoanId("a", 7, "x"), 1, 1.5e308),
        Renew(LoanId("a", 7, "x"), 1, math.inf),
        Beat(((LoanId("a", 7, "x"), (1 << 64) - 1),)),
        Cancel(LoanId("a", 7, "x"), 1, (1 << 64) - 1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_no_number_of_a_buyer_ends_a_load_manager(message: Message) -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, DURATION)
    written = len(rig.journals["b"])
    buyer_says(rig, message)
    assert len(rig.journals["b"]) == written
    serve(rig, loan, 5 * SECOND)
    for record in rig.journals["b"]:
        pack(record)
    assert rig.managers["b"].books.ledger.balance() == 4
    rig.crash("b")
    rig.wake("b")


@pytest.mark.parametrize(
    "message",
    [
        Alive((Report(LOAN, Load(1e308), True, SECOND),)),
        Alive((Report(LOAN, Load(1), True, (1 << 64) - 1),)),
        Renewed(LOAN, 1, math.nan),
        HandBack(LOAN, (1 << 64) - 1, 1, SECOND),
        Cancelled(LOAN, 1, SECOND, math.nan),
    ],
    ids=lambda message: type(message).__name__,
)
def test_no_number_of_a_seller_ends_a_load_manager(message: Message) -> None:
    rig = lent()
    written = len(rig.journals["a"])
    rig.say("b", "a", message)
    assert len(rig.journals["a"]) == written
    rig.settle(5 * SECOND)
    for record in rig.journals["a"]:
        pack(record)
    rig.crash("a")
    rig.wake("a")
    assert rig.runs("b") == ["t0"]


def test_a_letter_that_is_sent_again_is_no_sign_of_life_and_changes_nothing() -> None:
    """The Alive of a dead partner, recorded and sent again once a second."""
    rig = lent()
    recorded = []
    a = rig.managers["a"]
    life = rig.lives["a"]
    for at in range(60):
        report = Report(LOAN, Load(1), True, at * SECOND)
        letter = Letter((5, 1000 + at), (life, 1), Bound(), Alive((report,)))
        if at < 3:
            rig.obey("a", a.receive("b", letter, rig.now))
        recorded = [*recorded, letter][:3]
        for old in recorded:
            rig.obey("a", a.receive("b", old, rig.now))
        rig.now += SECOND // 4
        rig.wake("a")
        rig.posted.clear()
    assert any(isinstance(each, Fence) for _, each in rig.commands), "b is as good as dead"


def test_a_letter_that_binds_counts_once_though_others_have_overtaken_it() -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, 10 * SECOND)
    b, heard = rig.managers["b"], (rig.lives["b"], 1)

    def say(number: int, message: Message, place: int = 0) -> None:
        bound = Bound((5, place)) if place else Bound()
        rig.obey("b", b.receive("a", Letter((5, number), heard, bound, message), rig.now))

    say(1000, Beat())
    say(1000 - OVERTAKEN - 1, Cancel(loan, 1, 10 * SECOND), 1)
    assert rig.runs("b") == ["x"], "too old"
    rig.take(Alive)
    say(998, Beat())
    assert rig.take(Alive) == [], "of beats the last counts"
    say(999, Cancel(loan, 1, 10 * SECOND), 2)
    assert rig.runs("b") == []
    assert len(rig.take(Cancelled)) == 1
    say(999, Cancel(loan, 1, 10 * SECOND), 2)
    assert rig.take(Cancelled) == [], "heard before"
    say(1001, Cancel(loan, 1, 10 * SECOND), 2)
    assert len(rig.take(Cancelled)) == 1, "said again"


def test_what_was_overtaken_is_no_sign_of_life() -> None:
    """Letters of a dead partner that were held back, and come one after the other."""
    rig = lent()
    a, heard = rig.managers["a"], (rig.lives["a"], 1)
    rig.obey("a", a.receive("b", Letter((5, 200), heard, Bound(), Alive()), rig.now))
    for at in range(60):
        late = Letter((5, 100 + at), heard, Bound((5, 1 + at)), Taken(LOAN))
        rig.obey("a", a.receive("b", late, rig.now))
        rig.now += SECOND // 4
        rig.wake("a")
        rig.posted.clear()
    assert "b" in a.failed


def test_a_letter_to_an_earlier_life_counts_for_nothing_in_a_later_one() -> None:
    rig = lent()
    old = Letter((5, 10**6), (rig.lives["a"], 1), Bound((5, 3)), HandBack(LOAN, 9, 1, 0))
    rig.crash("a")
    rig.posted.clear()
    rig.obey("a", rig.managers["a"].receive("b", old, rig.now))
    assert [type(each) for _, _, each in rig.posted] == [Hello]
    assert "t0" not in rig.runs("a")
    rig.settle(2 * SECOND)
    assert rig.runs("b") == ["t0"], "the partner hears of the new life and goes on"


def test_numbers_are_never_used_twice_whatever_dies() -> None:
    rig = lent()
    for _ in range(3):
        rig.settle(2 * SECOND)
        rig.crash("a")
        rig.journals["b"].clear()
        rig.crash("b")
        rig.settle(2 * SECOND)
    marks = [
        (name, each.to, each.letter.mark) for name, each in rig.commands if isinstance(each, Send)
    ]
    assert len(set(marks)) == len(marks)


def test_letters_that_bind_are_a_chain_and_those_said_again_have_one_place() -> None:
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.wake("a")
    rig.posted.clear()
    for _ in range(5):
        rig.now += SECOND // 4
        rig.wake("a")
    rig.settle(100 * SECOND)
    sent = [each.letter for name, each in rig.commands if isinstance(each, Send) and name == "a"]
    bound = {each.bound.mark: each for each in sent if each.bound.mark != NONE}
    chain = [bound[mark].bound for mark in sorted(bound)]
    assert [each.before for each in chain] == [NONE, *(each.mark for each in chain[:-1])]
    for each in sent:
        if each.bound.mark != NONE:
            assert each.message == bound[each.bound.mark].message
    assert any(isinstance(each.message, Beat) and each.bound.mark == NONE for each in sent)


@pytest.mark.parametrize("bound", [Bound(), Bound((5, 1))], ids=["no place", "a place taken"])
def test_what_cannot_be_shown_to_others_counts_for_nothing(bound: Bound) -> None:
    rig = Rig([AB], a=[], b=[])
    loan = take_as_buyer(rig)
    serve(rig, loan, 10 * SECOND)
    b, heard = rig.managers["b"], (rig.lives["b"], 1)
    rig.obey("b", b.receive("a", Letter((5, 1), heard, Bound((5, 1)), Release(1)), rig.now))
    rig.obey("b", b.receive("a", Letter((5, 2), heard, bound, Cancel(loan, 0, 0)), rig.now))
    assert rig.runs("b") == ["x"]
    rig.obey("b", b.receive("a", Letter((5, 3), heard, Bound((5, 2)), Recall(loan)), rig.now))
    assert rig.runs("b") == ["x"]


def test_places_in_a_chain_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partner that floods must not fill the memory; a place that is forgotten is taken."""
    monkeypatch.setattr(letters, "MOST_KEPT", 10)
    post = letters.Post(1)
    for number in range(1, 51):
        letter = Letter((5, number), (1, 0), Bound((5, number)), Release(number))
        assert post.is_in_place(letter)
        assert post.is_to_keep(letter)
    assert len(post._kept) == 10
    assert not post.is_in_place(Letter((5, 60), (1, 0), Bound((5, 3)), Release(99)))
    assert not post.is_in_place(Letter((5, 60), (1, 0), Bound((5, 45)), Release(99)))
    assert post.is_in_place(Letter((5, 60), (1, 0), Bound((5, 45)), Release(45)))
    assert post.is_in_place(Letter((6, 1), (1, 0), Bound((6, 1)), Release(1)))
