from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import (
    SECOND,
    Books,
    Contract,
    Fence,
    Load,
    LoanId,
    LoanState,
    Start,
    State,
    Stop,
    Task,
    reconcile,
)
from holdfast.federation.machine.messages import (
    Answer,
    Cancel,
    Commit,
    Offer,
    Ready,
    Refuse,
    Release,
    Ship,
    Shipment,
    Taken,
)
from tests.federation.machine.rig import RULES, Rig, ones

AB = Contract("a", "b", 4, 4, duration=60 * SECOND)


def test_what_is_above_the_price_goes_to_the_partner() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle()
    assert (len(rig.runs("a")), len(rig.runs("b"))) == (4, 3)
    loan = rig.managers["a"].books.loans[0]
    assert (loan.state, loan.bucket, loan.price) == (LoanState.OUT, 7, 4)
    started = [each for who, each in rig.commands if isinstance(each, Start) and who == "b"]
    assert {each.bucket for each in started} == {7}
    assert {each.epoch for each in started} == {(1,)}


def test_only_what_was_accepted_is_paid() -> None:
    rig = Rig([AB], a=ones("t", 9), b=ones("u", 2))
    rig.settle()
    assert (len(rig.runs("a")), len(rig.runs("b"))) == (7, 4)
    a, b = (rig.managers[name].books.ledger for name in "ab")
    assert a.balance("b") == -8
    assert b.balance("a") == 8
    assert reconcile(a, b) == []


def test_the_cheapest_partner_is_asked_first_and_one_at_a_time() -> None:
    rig = Rig([AB, Contract("a", "c", 3, 3)], a=ones("t", 7), b=[], c=[])
    rig.wake("a")
    assert [(to, type(message)) for _, to, message in rig.posted] == [("c", Offer)]


def test_the_next_partner_is_asked_when_one_refuses() -> None:
    rig = Rig([AB, Contract("a", "c", 3, 3)], a=ones("t", 7), b=[], c=ones("u", 3))
    rig.settle()
    assert len(rig.runs("b")) == 3


def test_a_partner_who_refused_is_not_asked_again_before_the_duration_is_over() -> None:
    rig = Rig([AB], a=ones("t", 7), b=ones("u", 4))
    rig.settle(SECOND)
    rig.settle(58 * SECOND)
    rig.take(Offer)
    rig.wake("a")
    assert rig.take(Offer) == []
    rig.now = 61 * SECOND
    rig.wake("a")
    assert len(rig.take(Offer)) == 1


def test_the_best_paid_offer_is_taken_first_and_no_place_is_promised_twice() -> None:
    dear = Contract("c", "b", 5, 5)
    rig = Rig([AB, dear], a=ones("t", 9), b=[], c=ones("v", 9))
    rig.wake("a", "c")
    for message in list(rig.posted):
        rig.say(*message)
    rig.posted.clear()
    rig.now += RULES.gather
    rig.wake("b")
    answers = {to: message.tasks for _, to, message in rig.posted if isinstance(message, Answer)}
    assert len(answers["c"]) == 4
    assert answers["a"] == ()


def test_only_what_the_contract_names_is_offered_and_taken() -> None:
    contract = replace(AB, kinds=frozenset({"stage"}))
    rig = Rig([contract], a=[*ones("t", 3), *ones("secret", 5, "private")], b=[])
    rig.settle()
    assert rig.runs("b") == ["t0", "t1", "t2"]
    secret = Offer(99, 4, (Task("secret9", Load(1), "private"),), SECOND)
    rig.say("a", "b", secret)
    assert rig.take(Answer) == [Answer(99, 4, ())]


def test_what_may_not_be_handed_on_is_not() -> None:
    onward = Contract("b", "c", 1, 1)
    rig = Rig([AB, onward], a=ones("t", 7), b=[], c=[])
    rig.settle(15 * SECOND)
    assert rig.runs("c") != []
    rig = Rig([replace(AB, onward=False), onward], a=ones("t", 7), b=[], c=[])
    rig.settle(15 * SECOND)
    assert (rig.runs("b"), rig.runs("c")) == (["t0", "t1", "t2"], [])


def test_a_task_comes_back_after_the_duration_and_not_before() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle()
    for name in rig.runs("a")[:3]:
        rig.obey("a", rig.managers["a"].measure({name: Load(0.1)}))
    rig.settle(55 * SECOND)
    assert len(rig.runs("b")) == 3
    rig.settle(10 * SECOND)
    assert rig.runs("b") == []
    assert len(rig.runs("a")) == 7
    a, b = (rig.managers[name].books for name in "ab")
    assert a.ledger.balance() == -12
    assert reconcile(a.ledger, b.ledger) == []
    assert b.holdings == {}


def given_back_and_not_taken(price: float) -> Rig:
    """One with a task of its own and three that it has given back: they do not start at home. What
    is its own may go to a third for this price."""
    lent = [replace(AB, onward=False), Contract("b", "c", price, price, duration=60 * SECOND)]
    rig = Rig(lent, a=ones("t", 7), b=ones("u", 1), c=[])
    rig.settle(50 * SECOND)
    borrowed = [name for name in rig.runs("b") if name.startswith("t")]
    assert len(borrowed) == 3
    rig.unable = set(borrowed)
    for name in rig.runs("a"):
        rig.obey("a", rig.managers["a"].measure({name: Load(0.1)}))
    rig.settle(15 * SECOND)
    assert set(borrowed) < set(rig.runs("b") + rig.runs("c"))
    return rig


def test_what_is_given_back_does_not_make_other_tasks_dear() -> None:
    """A unit of it costs 3.9 with the three others, and 0.9 without them."""
    rig = given_back_and_not_taken(3.8)
    rig.obey("b", rig.managers["b"].measure({"u0": Load(1.8)}))
    rig.settle(15 * SECOND)
    assert rig.runs("c") == []
    rig.unable = set()
    rig.settle(40 * SECOND)
    assert (rig.runs("b"), rig.runs("c")) == (["u0"], [])
    assert rig.managers["b"].books.ledger.balance("c") == 0


def test_what_is_given_back_does_not_make_a_renewal_pay() -> None:
    """The fourth was worth 3.2 for a period. When that is over, the others are as good as gone."""
    rig = given_back_and_not_taken(3.2)
    assert rig.runs("c") == ["u0"]
    rig.settle(15 * SECOND)
    assert rig.runs("c") == []
    assert {each.period for each in rig.managers["c"].books.ledger} == {0}


@pytest.mark.parametrize("is_held_up", [True, False])
def test_a_task_that_comes_home_has_a_place_when_others_are_taken(is_held_up: bool) -> None:
    """Somebody takes up to four at the price of another, and has lent two."""
    rig = Rig([AB, Contract("c", "a", 4, 4)], a=ones("t", 6), b=[], c=[])
    rig.settle(50 * SECOND)
    assert (len(rig.runs("a")), len(rig.runs("b"))) == (4, 2)
    rig.unable = set(rig.runs("b")) if is_held_up else set()
    small = dict.fromkeys(rig.runs("a")[:2], Load(0.0))
    rig.obey("a", rig.managers["a"].measure(small))
    rig.settle(15 * SECOND)
    assert len(rig.runs("a")) == (4 if is_held_up else 6)
    rig.say("c", "a", Offer(1, 4, tuple(ones("v", 1)), SECOND))
    rig.now += RULES.gather
    rig.wake("a")
    assert [each.tasks for each in rig.take(Answer)] == [()]


def test_a_move_that_still_pays_is_renewed_and_paid_again() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle(130 * SECOND)
    assert len(rig.runs("b")) == 3
    ledger = rig.managers["a"].books.ledger
    assert {each.period for each in ledger} == {0, 1, 2}
    assert reconcile(ledger, rig.managers["b"].books.ledger) == []


def test_who_has_grown_too_busy_gives_back() -> None:
    rig = Rig([AB], a=ones("t", 7), b=ones("u", 1))
    rig.settle()
    rig.obey("b", rig.managers["b"].measure({"u0": Load(5)}))
    rig.settle(62 * SECOND)
    assert rig.runs("b") == ["u0"]


def test_one_who_understates_a_load_gets_no_second_period() -> None:
    """What is paid for another period is held against what is measured."""
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle()
    for task in rig.runs("b"):
        rig.obey("b", rig.managers["b"].measure({task: Load(3)}))
    rig.settle(62 * SECOND)
    assert rig.runs("b") != ["t0", "t1", "t2"]


def test_an_auction_goes_to_the_lowest_bid_and_the_others_are_released() -> None:
    contracts = [Contract("a", name, 10, 5) for name in "bcd"]
    rig = Rig(contracts, a=ones("t", 11), b=ones("u", 8), c=ones("v", 6), d=ones("w", 7))
    rig.settle(5 * SECOND)
    assert (len(rig.runs("a")), len(rig.runs("c"))) == (10, 7)
    assert [each.price for each in rig.managers["a"].books.loans] == [6.5]
    assert all(not each.books.promises for each in rig.managers.values())


def test_a_bid_binds_until_its_time_is_over_and_not_longer() -> None:
    rig = Rig([Contract("a", "b", 10, 5)], a=[], b=ones("u", 8))
    rig.say("a", "b", Offer(1, 5, (Task("x", Load(1)),), 3 * SECOND))
    rig.now += RULES.gather
    rig.wake("b")
    assert rig.take(Answer) == [Answer(1, 8.5, ("x",))]
    assert rig.managers["b"].books.expected == Load(9)
    rig.now += 3 * SECOND
    rig.wake("b")
    assert rig.managers["b"].books.expected == Load(8)
    rig.say("a", "b", Ship(1, 8.5, (Shipment("x", (1,)),)))
    assert rig.take(Refuse) == [Refuse(LoanId("a", 1, "x"))]


def test_an_old_offer_makes_no_new_promise() -> None:
    rig = Rig([AB], a=[], b=[])
    offer = Offer(5, 4, (Task("x", Load(1)),), SECOND)
    rig.say("a", "b", offer)
    rig.now += RULES.gather
    rig.wake("b")
    rig.say("a", "b", Release(5))
    rig.take(Answer)
    rig.say("a", "b", offer)
    rig.say("a", "b", replace(offer, number=4))
    assert {each.tasks for each in rig.take(Answer)} == {()}
    assert rig.managers["b"].books.promises == {}


def test_a_late_acceptance_is_released() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.wake("a")
    (offer,) = rig.take(Offer)
    rig.now += RULES.answer
    rig.wake("a")
    assert len(rig.take(Release)) == 1
    rig.say("b", "a", Answer(offer.number, 4, ("t0",)))
    assert rig.take(Release) == [Release(offer.number)]
    assert rig.managers["a"].books.loans == []
    assert rig.managers["a"].failed == set()


def test_a_silent_partner_is_asked_last_and_blocks_nobody() -> None:
    cheap = Contract("a", "c", 3, 3, duration=SECOND)
    rig = Rig([AB, cheap], a=ones("t", 7), b=[], c=[])
    rig.wake("a")
    rig.take(Offer)
    rig.now += RULES.answer
    rig.wake("a")
    assert [to for _, to, message in rig.posted if isinstance(message, Offer)] == ["b"]
    assert rig.managers["a"].failed == {"c"}


@pytest.mark.parametrize(
    "answer",
    [Answer(1, 99, ("t0",)), Answer(1, 1, ("t0",)), Answer(1, 4, ("t0", "mine"))],
    ids=["dear", "cheap", "foreign"],
)
def test_an_answer_outside_of_the_contract_is_a_refusal(answer: Answer) -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.wake("a")
    rig.say("b", "a", answer)
    assert rig.managers["a"].books.loans == []
    assert rig.managers["a"].books.offers == {}


def test_nobody_speaks_in_another_s_name() -> None:
    rig = Rig([AB, Contract("c", "b", 4, 4)], a=ones("t", 7), b=[], c=[])
    rig.settle()
    loan = rig.managers["a"].books.loans[0].id
    for message in (
        Ready(loan),
        Taken(loan),
        Refuse(loan),
        Cancel(loan, 0, 0),
        Commit(loan, 0, 4, 1, 60 * SECOND),
    ):
        rig.say("c", "b", message)
        rig.say("c", "a", message)
    rig.settle()
    assert (len(rig.runs("a")), len(rig.runs("b"))) == (4, 3)


@pytest.mark.parametrize(
    "offer",
    [
        Offer(1, 4, (), SECOND),
        Offer(1, 99, (Task("x", Load(1)),), SECOND),
        Offer(1, 4, (Task("x", Load(1)), Task("x", Load(1))), SECOND),
        Offer(1, 4, (Task("x", Load(1)),), 0),
    ],
    ids=["empty", "price", "twice", "no time"],
)
def test_an_offer_that_is_none_is_refused(offer: Offer) -> None:
    rig = Rig([AB], a=[], b=[])
    rig.say("a", "b", offer)
    assert rig.take(Answer) == [Answer(1, offer.price, ())]


def test_strangers_are_refused() -> None:
    rig = Rig([AB], a=[], b=[], c=[])
    rig.say("c", "b", Offer(1, 4, (Task("x", Load(1)),), SECOND))
    assert rig.take(Answer) == [Answer(1, 4, ())]


def test_a_partner_who_stops_answering_loses_its_tasks_behind_a_fence() -> None:
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.settle()
    assert rig.runs("b") == ["t0"]
    rig.fall_silent(RULES.patience + SECOND, "a")
    fences = {each for _, each in rig.commands if isinstance(each, Fence)}
    assert fences == {Fence("t0", (2,))}
    assert "t0" not in rig.runs("a"), "not before its readers have said where it is"
    rig.obey("a", rig.managers["a"].fenced("t0", (2,), 12))
    assert rig.commands[-1][1] == Start("t0", (2,), 12)
    # The partner was there all the time: its outputs are refused, and it is told.
    rig.obey("b", rig.managers["b"].refused("t0", (1,), rig.now))
    assert rig.managers["b"].books.holdings[LoanId("a", 1, "t0")].state is State.OVERRULED
    rig.settle(20 * SECOND)
    a, b = (rig.managers[name].books for name in "ab")
    assert LoanId("a", 1, "t0") not in b.holdings
    assert reconcile(a.ledger, b.ledger) == []
    assert sum(each.amount for each in a.ledger.of(LoanId("a", 1, "t0"))) < 0.1, "not served"


def test_an_offer_binds_across_a_crash() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.wake("a")
    (offer,) = rig.take(Offer)
    rig.crash("a")
    assert rig.take(Offer) == [offer]
    rig.say("a", "b", offer)
    rig.crash("b")
    rig.say("a", "b", offer)
    rig.now += RULES.gather
    rig.wake("b")
    rig.settle()
    assert len(rig.runs("b")) == 3


def test_books_are_those_of_the_journal() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle(70 * SECOND)
    for name, manager in rig.managers.items():
        again = Books(name, rig.journals[name])
        assert again.holdings == manager.books.holdings
        assert list(again.ledger) == list(manager.books.ledger)
        assert again.untold == manager.books.untold
        assert again.promised == manager.books.promised


def test_a_contract_that_has_ended_brings_nothing_new_and_takes_back_what_is_due() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle()
    rig.managers["a"].contracts.remove(AB)
    rig.settle(30 * SECOND)
    assert len(rig.runs("b")) == 3
    rig.settle(35 * SECOND)
    assert len(rig.runs("a")) == 7


def test_a_participant_that_joins_relieves_others() -> None:
    """E8 of the document: a cheaper partner behind a partner."""
    rig = Rig([AB], a=ones("t", 7), b=ones("u", 4), c=[])
    rig.settle(2 * SECOND)
    assert len(rig.runs("a")) == 7
    new = Contract("b", "c", 3, 3)
    for name in "bc":
        rig.managers[name].contracts.add(new)
    rig.settle(200 * SECOND)
    assert [len(rig.runs(name)) for name in "abc"] == [4, 4, 3]


def test_a_task_that_its_client_takes_away_ends_wherever_it_runs() -> None:
    rig = Rig([AB], a=ones("t", 5), b=[])
    rig.settle()
    rig.obey("a", rig.managers["a"].end("t0", rig.now))
    rig.carry()
    assert rig.runs("b") == []
    assert isinstance([each for who, each in rig.commands if who == "b"][-2], Stop)
    with pytest.raises(InvalidArgumentError, match="not one of a"):
        rig.managers["a"].end("t0", rig.now)
    with pytest.raises(InvalidArgumentError, match="of this name"):
        rig.managers["a"].own(Task("t1", Load(1)))


def test_a_partner_with_another_replica_of_a_stage_does_not_take_one_and_says_why() -> None:
    tasks = [replace(task, stage=f"s{at}") for at, task in enumerate(ones("t", 7))]
    other = Task("u0", Load(0.1), stage="s0")
    rig = Rig([AB], a=tasks, b=[other])
    rig.wake("a")
    (offer,) = rig.take(Offer)
    assert "t0" in {task.id for task in offer.tasks}
    rig.say("a", "b", offer)
    rig.now += SECOND
    rig.wake("b")
    (answer,) = rig.take(Answer)
    assert answer.apart == ("t0",)
    assert "t0" not in answer.tasks
    rig.say("b", "a", answer)
    rig.settle(5 * SECOND)
    assert rig.managers["a"].buyer.apart.keys() == {("b", "t0")}
    assert rig.runs("b") == ["t1", "t2", "u0"]


def test_who_cannot_take_one_replica_is_asked_at_once_for_what_else_there_is() -> None:
    """And for that one again when the duration is over."""
    tasks = [Task("t", Load(9.0), stage="s"), Task("w", Load(1.0))]
    rig = Rig([AB], a=tasks, b=[Task("u", Load(0.1), stage="s")])
    rig.settle(SECOND)
    assert rig.runs("b") == ["u", "w"]
    rig.obey("b", rig.managers["b"].end("u", rig.now))
    rig.obey("a", rig.managers["a"].measure({"t": Load(2.5)}))
    rig.obey("a", rig.managers["a"].own(Task("v", Load(7.0))))
    rig.settle(50 * SECOND)
    assert rig.runs("a") == ["t", "v"]
    rig.settle(30 * SECOND)
    assert rig.runs("b") == ["t", "w"]


def test_the_books_are_the_same_from_one_record_as_from_all() -> None:
    rig = Rig([AB, Contract("b", "a", 4, 4)], a=ones("t", 7), b=[])
    for _ in range(90):
        rig.settle(SECOND)
        for name, manager in rig.managers.items():
            summary = Books(name, rig.journals[name]).summary()
            assert summary == manager.books.summary()
            assert Books(name, [summary]).summary() == summary
            rig.journals[name][:] = [summary]
    assert len(rig.managers["a"].books.ledger) == 6
    rig.crash("a")
    assert len(rig.runs("a")) == 4


def test_a_lender_learns_what_its_task_takes_and_pays_no_more_than_was_agreed() -> None:
    rig = Rig([AB], a=ones("t", 7), b=[])
    rig.settle()
    (first, *_) = rig.runs("b")
    for load in (9.0, 0.25):
        rig.obey("b", rig.managers["b"].measure({first: Load(load)}))
        rig.settle(2 * SECOND)
        (loan,) = [each for each in rig.managers["a"].books.loans if each.id.task == first]
        key = rig.managers["a"].books.lent[loan.id]
        assert rig.managers["a"].books.holdings[key].task.load == Load(load)
    rig.obey("b", rig.managers["b"].measure({first: Load(1.05)}))
    rig.settle(70 * SECOND)
    paid = [each.units for each in rig.managers["a"].books.ledger if each.loan.task == first]
    assert max(paid) == 1.0


def test_a_task_comes_home_when_it_has_become_small_where_it_is() -> None:
    rig = Rig([AB], a=[Task("t", Load(3.0)), Task("u", Load(3.0))], b=[])
    rig.settle(SECOND)
    (away,) = rig.runs("b")
    rig.obey("b", rig.managers["b"].measure({away: Load(0.1)}))
    rig.settle(62 * SECOND)
    assert rig.runs("a") == ["t", "u"]
