"""Everything that is wrong with a topology: first each field by itself, then how they fit."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from holdfast.topology.field_checks import check_fields
from holdfast.topology.flow import check_flow
from holdfast.topology.problems import Problem
from holdfast.topology.rules import check_rules
from holdfast.topology.sound import Sound

if TYPE_CHECKING:
    from holdfast.topology.topology import Topology

__all__ = ["find_problems"]

MOST_FOUND: Final = 1_000
"""After so many it is no topology, and looking for more takes long."""


def find_problems(topology: Topology) -> list[Problem]:
    """All of them, in reason. A rule about several fields is asked where each is right alone."""
    sound = Sound.of(topology)
    found = chain(check_fields(topology), check_rules(sound), check_flow(sound))
    return list(islice(found, MOST_FOUND))
