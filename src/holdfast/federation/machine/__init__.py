"""Load that moves between independent participants by contracts agreed beforehand.

A participant's `Manager` hands tasks to partners where that is cheaper than to run them, and takes
tasks of partners where that pays. Prices are bounded by contracts, and nobody learns of anybody
else's load or costs. Nothing in here reads, writes, waits or looks at a clock.
"""

from holdfast.federation.machine.commands import (
    SECOND,
    Command,
    Fence,
    Halt,
    Keep,
    Persist,
    Prepare,
    Resume,
    Rules,
    Send,
    Start,
    Stop,
)
from holdfast.federation.machine.contract import Contract, Contracts
from holdfast.federation.machine.costs import (
    NOTHING,
    Cost,
    Costs,
    Curve,
    Load,
    Smoothed,
    Units,
    check_cost,
    check_curve,
    is_overloaded,
    marginal,
    points,
    power,
    queueing,
    total,
    unit_marginal,
    utility,
)
from holdfast.federation.machine.ledger import (
    Account,
    Difference,
    Dispute,
    Entry,
    Ledger,
    reconcile,
)
from holdfast.federation.machine.manager import Manager
from holdfast.federation.machine.messages import Epoch, Letter, LoanId, Message, Task
from holdfast.federation.machine.records import Holding, Loan, LoanState, Record, State
from holdfast.federation.machine.state import Books

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
