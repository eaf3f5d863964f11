"""Every problem of a topology: first each field by itself, then how they fit."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from holdfast.config.problems import Problem
from holdfast.config.validation import check_fields
from holdfast.pipeline.topology.flow import check_flow
from holdfast.pipeline.topology.rules import Sound, check_rules

if TYPE_CHECKING:
    from holdfast.pipeline.topology.topology import Topology


MOST_FOUND: Final = 1_000
"""After so many it is no topology, and looking for more takes long."""


def find_problems(topology: Topology) -> list[Problem]:
    """All of them, in reason. A rule about several fields is asked where each is right alone."""
    sound = Sound.of(topology)
    found = chain(check_fields(topology), check_rules(sound), check_flow(sound))
    return list(islice(found, MOST_FOUND))
