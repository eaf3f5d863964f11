"""What holds for any costs, tasks and contracts: nobody loses, money stays, and it ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.federation.machine import Books, Contract, Cost, Costs, Load, Task, Units, power
from holdfast.federation.machine.selection import choose_offer, choose_taken
from simulator.federation.levels import SLOTS
from simulator.federation.lockstep import Lockstep

NAMES = ("a", "b", "c", "d")
ROUNDS = 40


@st.composite
def costs(draw) -> Cost:
    scale, exponent = draw(st.sampled_from([0.5, 1.0, 3.0])), draw(st.sampled_from([2.0, 3.0]))
    return Costs(power(scale, exponent), power(draw(st.sampled_from([0.1, 1.0])), 2.0))


loads = st.builds(Load, st.integers(1, 40).map(lambda n: n / 20), st.sampled_from([0.0, 0.5]))


@st.composite
def federations(draw) -> Lockstep:
    names = NAMES[: draw(st.integers(2, 4))]
    contracts = []
    for buyer in names:
        for seller in names:
            if buyer != seller and draw(st.booleans()):
                high = draw(st.integers(1, 60)) / 4
                low = high * draw(st.sampled_from([1.0, 1.0, 0.8, 0.5]))
                units = Units(1.0, draw(st.sampled_from([0.0, 1.0])))
                contracts.append(Contract(buyer, seller, high, low, units=units))
    tasks = {
        name: [
            Task(f"{name}{at}", load) for at, load in enumerate(draw(st.lists(loads, max_size=6)))
        ]
        for name in names
    }
    phases = {name: draw(st.integers(0, 3)) for name in names}
    return Lockstep({name: draw(costs()) for name in names}, contracts, tasks, phases)


@settings(max_examples=25)
@given(federations())
def test_nobody_loses_and_it_comes_to_an_end(run: Lockstep) -> None:
    before = {name: each.cost(each.books.staying) for name, each in run.managers.items()}
    total = run.total_cost
    quiet = 0
    for _ in range(ROUNDS):
        moved = len(run.transfers)
        run.run(SLOTS)
        if len(run.transfers) > moved:
            assert run.total_cost < total, "every round that moves something saves something"
        total = run.total_cost
        quiet = quiet + 1 if len(run.transfers) == moved else 0
        if quiet == 3:
            break
    assert run.problems == [], "nobody accepts at a loss, no place is promised twice"
    for name, manager in run.managers.items():
        utility = manager.books.ledger.balance() - manager.cost(manager.books.staying)
        assert utility >= -before[name] - 1e-9, f"{name} is worse off than alone"
    balance = sum(each.books.ledger.balance() for each in run.managers.values())
    assert abs(balance) < 1e-9
    assert quiet == 3, "it still moves"
    assert not any(_could_move(run))


def _could_move(run: Lockstep):
    """At the lowest prices."""
    for buyer in run.managers.values():
        for contract in buyer.contracts.buying:
            seller = run.managers[contract.seller]
            tasks = [
                (key, each.task.load) for key, each in buyer.books.holdings.items() if each.is_idle
            ]
            given_up = choose_offer(
                buyer.cost, buyer.books.staying, tasks, contract.low, contract.units
            )
            goods = [each for each in tasks if each[0] in given_up]
            yield bool(
                choose_taken(
                    seller.cost, seller.books.expected, goods, contract.low, contract.units
                )
            )


@settings(max_examples=15)
@given(federations())
def test_every_task_is_at_one_place_and_books_are_their_journals(run: Lockstep) -> None:
    names = sorted(each.task.id for manager in run.managers.values() for each in manager.books.here)
    run.run(6 * SLOTS)
    here = sorted(each.task.id for manager in run.managers.values() for each in manager.books.here)
    assert here == names
    for name, manager in run.managers.items():
        again = Books(name, run.journals[name])
        assert again.holdings == manager.books.holdings
        assert again.promises == manager.books.promises
        assert list(again.ledger) == list(manager.books.ledger)
