"""Diagrams of operators, what of them matters to fault tolerance, and the stages they become."""

from simulator.diagram.diagram import Diagram, Placed
from simulator.diagram.operators import (
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
from simulator.diagram.plan import Output, StagePlan, Step
from simulator.diagram.retention import retention
from simulator.diagram.rewriting import rewrite

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
