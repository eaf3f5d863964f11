"""Replicas that share the work of an operator: every tuple is processed by one of them.

Records of what each has in hand lie with all colleagues, so that one of them can finish it; what is
promised of each tuple is chosen: at most once, at least once, exactly once.
"""

from holdfast.protocol.sharing.books import Book, Claim
from holdfast.protocol.sharing.desk import Process
from holdfast.protocol.sharing.ends import Sink, Source
from holdfast.protocol.sharing.ids import TupleId
from holdfast.protocol.sharing.messages import Message, Send
from holdfast.protocol.sharing.plan import Operator, Plan
from holdfast.protocol.sharing.replica import Replica
from holdfast.protocol.sharing.routing import Routing, at_random, by_key, primary, round_robin
from holdfast.protocol.sharing.rules import Guarantee, Rules
from holdfast.protocol.sharing.work import Step, Watch

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
