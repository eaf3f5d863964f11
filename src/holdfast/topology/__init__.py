"""Topologies: one TOML file, or the same dataclasses in Python, checked as a whole.

    topology = Topology.read("fleet.toml")

Every error is told at once, with its file, table, field and remedy. Nothing is started here, and
neither Spark nor Arrow is loaded.
"""

from __future__ import annotations

from holdfast.topology.addresses import Address, is_loopback, parse_address
from holdfast.topology.columns import Column
from holdfast.topology.gates import COMPARING, POLICIES, VOTING
from holdfast.topology.parties import Party, PartyKind
from holdfast.topology.problems import Problem, TopologyError
from holdfast.topology.security import Security
from holdfast.topology.sinks import Callback, Console, Delta, Output, Parquet, Sink, SqlTable
from holdfast.topology.spans import Span
from holdfast.topology.stages import (
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
from holdfast.topology.streams import Edge, Files, Mqtt, Push, Rate, Sensors, Source, Stream
from holdfast.topology.topology import Topology

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
