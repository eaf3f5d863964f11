"""Replicas that share the work of an operator: one of them processes each tuple.

Records of what each has in hand lie with all colleagues, so that one of them can finish it; what is
promised of each tuple is chosen: at most once, at least once, exactly once.
"""

from holdfast.pipeline.machine.sharing.messages import Message, Send
from holdfast.pipeline.machine.sharing.ownership import Book, Claim
from holdfast.pipeline.machine.sharing.plan import (
    Guarantee,
    Operator,
    Plan,
    Routing,
    Rules,
    TupleId,
    at_random,
    by_key,
    primary,
    round_robin,
)
from holdfast.pipeline.machine.sharing.replica import Replica, Sink, Source
from holdfast.pipeline.machine.sharing.tuple_tables import Process
from holdfast.pipeline.machine.sharing.work import Step, Watch

__all__ = [
    "Book",
    "Claim",
    "Guarantee",
    "Message",
    "Operator",
    "Plan",
    "Process",
    "Replica",
    "Routing",
    "Rules",
    "Send",
    "Sink",
    "Source",
    "Step",
    "TupleId",
    "Watch",
    "at_random",
    "by_key",
    "primary",
    "round_robin",
]
