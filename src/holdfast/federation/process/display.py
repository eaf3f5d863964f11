"""Output of `holdfast contracts show` and `advise`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from holdfast.config.durations import Span
from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import Load, marginal
from holdfast.federation.machine.advisor import Advice, advise
from holdfast.federation.process.settings import Participant

TRIES = 20_000
LARGEST = 64 << 20


def show_contracts(participant: Participant, console: Console) -> None:
    """The contracts, and at which load of one's own each begins to be worth using."""
    table = Table(title=f"Contracts of {participant.name}", title_justify="left")
    for column in ("from", "to", "price", "duration", "kinds", "onward", "from a load of"):
        table.add_column(
            column, justify="right" if column in ("price", "from a load of") else "left"
        )
    for contract in participant.contracts():
        level = _level(participant, contract.low / (contract.units.cpu or 1.0))
        is_mine = contract.buyer == participant.name
        table.add_row(
            contract.buyer,
            contract.seller,
            f"{contract.high:g}" if contract.is_fixed else f"{contract.low:g} to {contract.high:g}",
            "for ever" if contract.duration is None else str(Span(contract.duration)),
            "all" if contract.kinds is None else ", ".join(sorted(contract.kinds)),
            "yes" if contract.onward else "no",
            f"{'above' if is_mine else 'below'} {level:.0%}",
        )
    console.print(table)
    high = _slope(participant, participant.capacity)
    console.print(f"a unit of cpu at capacity ({participant.capacity:.0%}) costs {high:.4g}")


def _slope(participant: Participant, level: float) -> float:
    step = 0.001
    return marginal(participant.cost, Load(step), Load(max(0.0, level - step))) / step


def _level(participant: Participant, price: float) -> float:
    """The load at which a unit of cpu costs so much, by halving."""
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _slope(participant, middle) < price else (low, middle)
    return low


def read_history(path: Path) -> list[float]:
    """Loads that were measured: a number on each line, as shares of the cpu; 1 is all of it."""
    try:
        if path.stat().st_size > LARGEST:
            raise InvalidArgumentError(f"{path}: has more than {LARGEST >> 20} MiB; give less")
        lines = path.read_text().split()
        return [float(line) for line in lines]
    except OSError as error:
        raise InvalidArgumentError(f"{path}: {error.strerror}; give a file of loads") from error
    except ValueError as error:
        raise InvalidArgumentError(f"{path}: {error}; give a number on each line") from None


def make_advice(
    participant: Participant,
    history: Sequence[float],
    *,
    most: int = 10,
    hops: int = 1,
    upkeep: float = 0.0,
    seed: int = 1,
) -> Advice:
    shares = np.random.default_rng(seed).random((TRIES, most + 1))
    return advise(
        participant.cost,
        history,
        shares,
        capacity=participant.capacity,
        upkeep=upkeep,
        hops=hops,
    )


def show_advice(advice: Advice, console: Console) -> None:
    table = Table(title="If load spikes", title_justify="left")
    for column in ("contracts", "overloaded still", "expected overload", "benefit"):
        table.add_column(column, justify="right")
    for each in advice.outlooks:
        table.add_row(
            str(each.contracts),
            f"{each.overloaded:.1%}",
            f"{each.overload:.3f}",
            f"{advice.benefit(each.contracts):.4f}",
        )
    console.print(table)
    for line in (
        f"above capacity {advice.spikes:.1%} of the time",
        f"ask for {advice.contracts} contracts as a buyer",
        f"against overload: prices from {advice.low:.4g} to {advice.high:.4g}",
        f"to save money only: about {advice.cheap:.4g}, what a unit costs at the median load",
    ):
        console.print(line, highlight=False)
