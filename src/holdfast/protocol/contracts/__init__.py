"""Load that moves between independent participants by contracts agreed beforehand.

A participant's `Manager` hands tasks to partners where that is cheaper than to run them, and takes
tasks of partners where that pays. Prices are bounded by contracts, and nobody learns of anybody
else's load or costs. Nothing in here reads, writes, waits or looks at a clock.
"""

from holdfast.protocol.contracts.books import Books
from holdfast.protocol.contracts.commands import (
    Command,
    Fence,
    Halt,
    Keep,
    Persist,
    Prepare,
    Resume,
    Send,
    Start,
    Stop,
)
from holdfast.protocol.contracts.contract import Contract, Contracts
from holdfast.protocol.contracts.costs import (
    Cost,
    Costs,
    check_cost,
    is_overloaded,
    marginal,
    unit_marginal,
    utility,
)
from holdfast.protocol.contracts.curves import Curve, check_curve, points, power, queueing
from holdfast.protocol.contracts.holdings import Holding, Loan, LoanState, State
from holdfast.protocol.contracts.ledger import (
    Account,
    Difference,
    Dispute,
    Entry,
    Ledger,
    reconcile,
)
from holdfast.protocol.contracts.letters import Letter
from holdfast.protocol.contracts.loads import NOTHING, Load, Units, total
from holdfast.protocol.contracts.manager import Manager
from holdfast.protocol.contracts.messages import Message
from holdfast.protocol.contracts.records import Record
from holdfast.protocol.contracts.rules import SECOND, Rules
from holdfast.protocol.contracts.smoothing import Smoothed
from holdfast.protocol.contracts.tasks import Epoch, LoanId, Task

__all__ = [
    "NOTHING",
    "SECOND",
    "Account",
    "Books",
    "Command",
    "Contract",
    "Contracts",
    "Cost",
    "Costs",
    "Curve",
    "Difference",
    "Dispute",
    "Entry",
    "Epoch",
    "Fence",
    "Halt",
    "Holding",
    "Keep",
    "Ledger",
    "Letter",
    "Load",
    "Loan",
    "LoanId",
    "LoanState",
    "Manager",
    "Message",
    "Persist",
    "Prepare",
    "Record",
    "Resume",
    "Rules",
    "Send",
    "Smoothed",
    "Start",
    "State",
    "Stop",
    "Task",
    "Units",
    "check_cost",
    "check_curve",
    "is_overloaded",
    "marginal",
    "points",
    "power",
    "queueing",
    "reconcile",
    "total",
    "unit_marginal",
    "utility",
]
