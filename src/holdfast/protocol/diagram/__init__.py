"""Diagrams of operators, what of them matters to fault tolerance, and the stages they become."""

from holdfast.protocol.diagram.diagram import Diagram, Placed
from holdfast.protocol.diagram.operators import (
    CountWindow,
    Filter,
    Join,
    Map,
    Merge,
    Operator,
    OrderedJoin,
    Sort,
    Timeout,
    Union,
    WindowAggregate,
)
from holdfast.protocol.diagram.plan import Output, StagePlan, Step
from holdfast.protocol.diagram.retention import retention
from holdfast.protocol.diagram.rewriting import rewrite

__all__ = [
    "CountWindow",
    "Diagram",
    "Filter",
    "Join",
    "Map",
    "Merge",
    "Operator",
    "OrderedJoin",
    "Output",
    "Placed",
    "Sort",
    "StagePlan",
    "Step",
    "Timeout",
    "Union",
    "WindowAggregate",
    "retention",
    "rewrite",
]
