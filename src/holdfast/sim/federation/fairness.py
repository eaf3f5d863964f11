"""What nobody may do to itself: take or hand over at a loss, or promise a place twice.

Calculated anew from the books, not by the functions that decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.protocol.contracts import Command, Load, Manager, Persist, State
from holdfast.protocol.contracts.records import Lent, Promised

__all__ = ["losses"]


def losses(manager: Manager, commands: Sequence[Command], *, is_static: bool) -> Iterator[str]:
    """What is wrong with decisions just made. Offers bind though loads change while they are
    answered: unless all `is_static`, only what is promised is judged."""
    records = [each.record for each in commands if isinstance(each, Persist)]
    yield from _promised(manager, [each for each in records if isinstance(each, Promised)])
    if is_static:
        for each in records:
            if isinstance(each, Lent):
                yield from _lent(manager, each)


def _promised(manager: Manager, news: Sequence[Promised]) -> Iterator[str]:
    """Each pays on top of all that runs or was promised before."""
    books = manager.books
    new = {(each.buyer, each.number) for each in news}
    here = [
        each.task.load
        for each in books.holdings.values()
        if each.is_here or each.state is State.PREPARING
    ]
    old = [each for key, each in books.promises.items() if key not in new]
    before = _sum([*here, *(task.load for each in old for task in each.tasks)])
    for each in news:
        contract = manager.contracts.of(each.buyer)
        if contract is None or not contract.low <= each.price <= contract.high:
            yield f"{manager.me} asked {each.price}, which no contract says"
            continue
        after = _sum([before, *(task.load for task in each.tasks)])
        paid = each.price * sum(contract.units.of(task.load) for task in each.tasks)
        more = manager.cost(after) - manager.cost(before)
        if more > paid * (1 + 1e-9) + 1e-12:
            yield f"{manager.me} promised {each.tasks} at a loss: {more} for {paid}"
        before = after


def _lent(manager: Manager, lent: Lent) -> Iterator[str]:
    """It costs less there than here."""
    books = manager.books
    going = [books.holdings[lot.key].task.load for lot in lent.lots]
    before, after = _sum([books.staying, *going]), books.staying
    saved = manager.cost(before) - manager.cost(after)
    paid = sum(lent.price * lot.units for lot in lent.lots)
    if saved <= paid * (1 - 1e-9):
        yield f"{manager.me} pays {paid} to save {saved}"


def _sum(loads: Sequence[Load]) -> Load:
    return sum(loads, Load())
