"""Topologies: one TOML file, or the same dataclasses in Python, checked as a whole.

    topology = Topology.read("fleet.toml")

Every error is told at once, with its file, table, field and remedy. Nothing is started here, and
neither Spark nor Arrow is loaded.
"""

from __future__ import annotations

from holdfast.config.addresses import Address, is_loopback, parse_address
from holdfast.config.durations import Span
from holdfast.config.problems import Problem, TopologyError
from holdfast.config.security import Security
from holdfast.pipeline.topology.columns import Column
from holdfast.pipeline.topology.policies import COMPARING, POLICIES, VOTING
from holdfast.pipeline.topology.sinks import (
    Callback,
    Console,
    Delta,
    Output,
    Parquet,
    Sink,
    SqlTable,
)
from holdfast.pipeline.topology.stages import (
    Function,
    Join,
    Replica,
    Select,
    Sql,
    Stage,
    Step,
    Where,
    Window,
)
from holdfast.pipeline.topology.streams import (
    Edge,
    Files,
    Mqtt,
    Push,
    Rate,
    Sensors,
    Source,
    Stream,
)
from holdfast.pipeline.topology.topology import Party, PartyKind, Topology

__all__ = [
    "COMPARING",
    "POLICIES",
    "VOTING",
    "Address",
    "Callback",
    "Column",
    "Console",
    "Delta",
    "Edge",
    "Files",
    "Function",
    "Join",
    "Mqtt",
    "Output",
    "Parquet",
    "Party",
    "PartyKind",
    "Problem",
    "Push",
    "Rate",
    "Replica",
    "Security",
    "Select",
    "Sensors",
    "Sink",
    "Source",
    "Span",
    "Sql",
    "SqlTable",
    "Stage",
    "Step",
    "Stream",
    "Topology",
    "TopologyError",
    "Where",
    "Window",
    "is_loopback",
    "parse_address",
]
