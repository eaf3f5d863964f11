"""Whether a run kept what the mechanism promises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from holdfast.federation.machine import SECOND, LoanState, State, reconcile
from holdfast.federation.machine.commands import longest_hold
from holdfast.federation.machine.proof import Signed, prove
from holdfast.federation.machine.records import Failed
from holdfast.federation.machine.selection import bid, choose_offer, choose_taken, keep_apart
from simulator.federation.cheating import SILENT
from simulator.federation.scenario import BUCKET, Scenario
from simulator.federation.world import FederationWorld
from simulator.world import EndlessRunError

PATIENCE = 60
"""Seconds after the end within which all that is under way must have come to its end."""
LAG = 15
"""Buckets that a task may be behind."""


@dataclass(frozen=True, slots=True)
class FederationTrial:
    """What came of it; no `problems` if all is right."""

    world: FederationWorld
    problems: tuple[str, ...]


def try_federation(scenario: Scenario) -> FederationTrial:
    world = FederationWorld(scenario)
    try:
        world.run()
        for _ in range(2 * PATIENCE):
            if not any(_unfinished(world)):
                break
            world.run_on(SECOND // 2 + 7_000)
    except EndlessRunError as error:
        return FederationTrial(world, (f"endless: {error}",))
    found = [*dict.fromkeys(world.problems), *_always(world), *_unfinished(world)]
    found += [*_unproven(world), *_losses(world)]
    return FederationTrial(world, tuple(found))


def _always(world: FederationWorld) -> Iterator[str]:
    """What must hold whatever happens."""
    for task, readers in world.readers.items():
        if readers.gaps:
            yield f"{task}: readers were given buckets with a gap before them"
    failed = any(
        isinstance(record, Failed) for party in world.parties.values() for record in party.journal
    )
    for (task, bucket), runs in world.computed.items():
        if len(set(runs)) < len(runs) and not world.deaths:
            yield f"{task}: bucket {bucket} was computed twice by one: {runs}"
        if len({epoch for _, epoch in runs}) < len(set(runs)):
            yield f"{task}: two computed bucket {bucket} as the same epoch: {runs}"
        if len(runs) > 1 and not failed and not world.deaths:
            yield f"{task}: bucket {bucket} was computed at two places by a planned move: {runs}"


def _unfinished(world: FederationWorld) -> Iterator[str]:
    """What must hold when all is calm."""
    yield from _lost(world)
    up = world.honest
    broken = (each.name for each in world.scenario.breakdowns)
    unreliable = {*world.scenario.cheats, *broken}
    for name, manager in up.items():
        books = manager.books
        for told, (partner, _) in books.untold.items():
            if partner in up:
                yield f"{name} has not told {partner} of {told}"
        for holding in books.holdings.values():
            lender = holding.key.lender
            if holding.state in (State.PREPARING, State.BACK, State.OVERRULED) and lender in up:
                yield f"{name}: {holding.key} is still {holding.state.value}"
        for loan in books.loans:
            if loan.state is not LoanState.OUT and loan.partner not in unreliable:
                yield f"{name}: loan {loan.id} is still {loan.state.value}"
        for buyer, number in books.promises:
            if buyer in up and number not in up[buyer].books.offers:
                yield f"{name} keeps a place for {buyer} that nobody wants"
    for one, other in combinations(up.values(), 2):
        for difference in reconcile(one.books.ledger, other.books.ledger):
            yield f"ledgers of {one.me} and {other.me}: {difference}"
    if len(up) == len(world.parties):
        balance = sum(manager.books.ledger.balance() for manager in up.values())
        if abs(balance) > 1e-9:
            yield f"{balance} of money came from nowhere"
    yield from _profitable(world)


def _unproven(world: FederationWorld) -> Iterator[str]:
    """Entries of an honest ledger that its letters do not bear out."""
    for name in world.honest:
        party = world.parties[name]
        if party.is_up:
            letters = [Signed(*each) for each in party.letters]
            for problem in prove(party.manager.books.ledger, letters).problems:
                yield f"{party.name} cannot prove: {problem}"


def _losses(world: FederationWorld) -> Iterator[str]:
    """Money that an honest participant has lost to anybody."""
    scenario, rules = world.scenario, world.scenario.rules
    acknowledging: set[str] = set()
    if not (scenario.crashes or scenario.cuts or scenario.pauses or scenario.weather.loss):
        acknowledging = {name for name, kind in scenario.cheats.items() if kind not in SILENT}
    for name, manager in world.honest.items():
        ledger = manager.books.ledger
        yield from world.bills.seller_losses(ledger, rules, acknowledging)
        yield from world.bills.buyer_losses(ledger, rules, world.now)
        for dispute in ledger.disputes.values():
            if dispute.partner not in world.scenario.cheats:
                yield f"{name} and {dispute.partner} are both honest and do not agree: {dispute}"
        for promise in manager.books.promises.values():
            contract = manager.contracts.of(promise.buyer)
            if contract is not None:
                left = promise.until - world.time(world.parties[name])
                if left > longest_hold(contract, rules):
                    yield f"{name} keeps a place for {promise.buyer} for {left} µs"


def _lost(world: FederationWorld) -> Iterator[str]:
    """Tasks whose outputs do not come, though their owner is there."""
    rules = world.scenario.rules
    # Where tasks do not run, each has to be found out.
    waits = 2 * rules.prepare + rules.patience if world.scenario.breakdowns else 0
    lag = LAG + waits // BUCKET
    for name, participant in world.scenario.participants.items():
        for task in participant.tasks:
            behind = world.now // BUCKET - world.readers[task.id].next
            if name in world.honest and behind > lag:
                yield f"{task.id} is lost: {behind} buckets behind"


def _profitable(world: FederationWorld) -> Iterator[str]:
    """Moves that would pay both and have not been made: it has not converged."""
    broken = {each.name for each in world.scenario.breakdowns}
    for contract in world.scenario.contracts:
        if not {contract.buyer, contract.seller} <= world.honest.keys() - broken:
            continue
        buyer, seller = world.parties[contract.buyer], world.parties[contract.seller]
        books, margin = buyer.manager.books, world.scenario.rules.margin
        movable = {
            key: holding.task
            for key, holding in sorted(books.holdings.items())
            if holding.is_idle and holding.onward and contract.allows(holding.task.kind)
        }
        possible = keep_apart(seller.manager.books.committed, movable.values())
        loads = [(key, task.load) for key, task in movable.items() if task in possible]
        cost = buyer.manager.cost
        migration = world.scenario.rules.migration
        offer = choose_offer(
            cost, books.staying, loads, contract.low, contract.units,
            margin=margin, migration=migration,
        )  # fmt: skip
        goods = [(key, load) for key, load in loads if key in offer]
        there = seller.manager.cost, seller.manager.books.expected
        if choose_taken(*there, goods, contract.low, contract.units, margin=margin):
            yield f"{contract.buyer} could hand something to {contract.seller}"
            continue
        asked = bid(*there, goods, contract, 0, margin=margin)
        if asked is None:
            continue
        again = [(key, load) for key, load in loads if key in asked.tasks]
        if choose_offer(
            cost, books.staying, again, asked.price, contract.units,
            margin=margin, migration=migration,
        ):  # fmt: skip
            yield f"{contract.buyer} could hand {again} to {contract.seller} at {asked.price}"
