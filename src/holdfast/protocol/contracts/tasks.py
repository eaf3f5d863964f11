"""What is moved: a task, where it may run by turns, and by which epoch its outputs are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.contracts.loads import Load

__all__ = ["Epoch", "LoanId", "Task"]

Epoch = tuple[int, ...]
"""Who runs a task last has the highest epoch, by the order of tuples.

Whoever has a task numbers its turns: 1, 2, 3 ... Whoever lends it with epoch (3,) runs it itself
again as (4,) or more; who has it as (3,) lends it on as (3, 1). So everybody can overrule those to
whom it has lent, and nobody those from whom it has borrowed.
"""


@dataclass(frozen=True, slots=True)
class Task:
    """One that a partner can be told of. Its load is what its present host has measured."""

    id: str
    load: Load
    kind: str = "stage"
    stage: str = ""
    """What it is one of the replicas of; they are kept at different participants."""

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidArgumentError("task: one has no name; give it one")


class LoanId(NamedTuple):
    """A task that `lender` hands over in its offer of this number; 0: its own, never lent."""

    lender: str
    number: int
    task: str
