"""Who takes part in a topology: one process for each source, replica and sink."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Party", "PartyKind"]


class PartyKind(StrEnum):
    """What a party does."""

    SOURCE = "source"
    REPLICA = "replica"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Party:
    """One process of a running topology."""

    name: str
    """`readings` for a source, `clean/1` for the first replica of a stage, `archive` for a sink."""
    kind: PartyKind
    table: str
    """The stream, stage or sink that it is of: `clean` for `clean/1`."""
    address: str | None
    """Where it serves its log; None for a sink, which serves nothing."""
    host: str
    """On which machine it runs."""
