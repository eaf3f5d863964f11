"""All that happens to a system from outside, as data."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from holdfast.pipeline.machine.commands import Settings
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.source import EventClock
from simulator.diagram import Diagram, StagePlan
from simulator.faults import Fault
from simulator.liars import Lie
from simulator.parties.node import Cost
from simulator.scenario.options import Options
from simulator.scenario.times import END, HEALED, SIZE, WILD


@dataclass(frozen=True, slots=True)
class Reading:
    time: int
    source: str
    key: str
    value: int
    at: int = 0
    """The time that it says, where its source goes by that."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that happens to the system from outside."""

    seed: int
    options: Options
    diagram: Diagram
    plans: tuple[StagePlan, ...]
    replicas: Mapping[str, tuple[str, ...]]
    """The names of the replicas of each stage."""
    settings: Mapping[str, Settings]
    readings: tuple[Reading, ...]
    faults: tuple[Fault, ...]
    ahead: Mapping[str, int]
    """How far clocks are ahead."""
    save_every: int
    ordered: bool
    """Whether sources publish a bucket at the first reading after it."""
    liars: Mapping[str, Lie]
    """Replicas that lie."""
    cost: Cost = field(default_factory=Cost)
    """How long stages take."""
    retentions: Mapping[str, Retention] = field(default_factory=dict)
    """What is kept of streams that are not kept until all have read them."""
    twins: tuple[str, ...] = ()
    """Sources with a hot standby."""
    size: int = SIZE
    """Of a bucket."""
    healed: int = HEALED
    """When the last fault ends."""
    until: int = END
    """When all is over."""
    clocks: int = 20_000
    """So far clocks of sources may be ahead."""
    clocks_step: bool = False
    """Whether they are other ones after a restart."""
    event_clocks: Mapping[str, EventClock] = field(default_factory=dict)
    """Sources whose readings say their own times, and what they start with."""
    counts_sleep: bool = True
    """Whether steady clocks go on while their machine is suspended."""

    @property
    def has_wild_clocks(self) -> bool:
        """Whether clocks are farther apart than is promised anything for but the right rows."""
        return self.clocks >= WILD

    @property
    def keeps_all(self) -> bool:
        """Whether all streams are kept from their beginning."""
        return any(kept.least == math.inf for kept in self.retentions.values())

    def with_faults(self, faults: Collection[Fault]) -> Scenario:
        """The same with only these faults."""
        return replace(self, faults=tuple(faults))

    @property
    def makers(self) -> dict[str, tuple[str, ...]]:
        """Who publishes each stream."""
        made = {name: self._proxies(name) for name in self.diagram.sources}
        for plan in self.plans:
            for output in plan.outputs:
                made[output.stream] = self.replicas[plan.name]
        return made

    def _proxies(self, source: str) -> tuple[str, ...]:
        return (f"{source}/0", f"{source}/1") if source in self.twins else (source,)
