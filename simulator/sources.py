"""The sources of a scenario: those with one proxy, and those with a hot standby."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.source import Log, Source
from simulator.network import Network
from simulator.parties import Device, Process, SourceParty, TwinParty
from simulator.scenario import LOOK, TWIN_PATIENCE, TWIN_PERIOD, Scenario
from simulator.standby import Entry, Twin


class Sources:
    """Who takes in readings, and who publishes them."""

    def __init__(
        self,
        scenario: Scenario,
        readers: Callable[[str], tuple[str, ...]],
        process: Callable[[str], Process],
        network: Network,
    ) -> None:
        """`readers` of a stream by their names; `process` makes that of a proxy."""
        self.takers: dict[str, SourceParty | Device] = {}
        """By the name of the source."""
        self.proxies: dict[str, SourceParty | TwinParty] = {}
        """By their own names."""
        self._scenario = scenario
        self._readers = readers
        self._process = process
        self._network = network
        for name in scenario.diagram.sources:
            if name in scenario.twins:
                self.takers[name] = self._add_twins(name)
            else:
                self.takers[name] = self.proxies[name] = self._source(name)

    def _source(self, name: str) -> SourceParty:
        def make(log: Sequence[Log]) -> Source:
            return Source(
                name,
                self._readers(name),
                interval=self._scenario.size,
                ordered=self._scenario.ordered and name not in self._scenario.event_clocks,
                retention=self._scenario.retentions.get(name),
                log=log,
            )

        event_clock = self._scenario.event_clocks.get(name)
        process = self._process(name)
        return SourceParty(name, make, process, self._network, event_clock, look=LOOK)

    def _add_twins(self, stream: str) -> Device:
        device = Device()
        pair = self._scenario.makers[stream]
        for rank, name in enumerate(pair):
            self.proxies[name] = TwinParty(
                name,
                pair[1 - rank],
                device,
                self._twin(rank),
                self._line(stream, name),
                self._process(name),
                self._network,
            )
        return device

    def _twin(self, rank: int) -> Callable[[Sequence[Entry], int, int], Twin]:
        def make(log: Sequence[Entry], epoch: int, now: int) -> Twin:
            return Twin(
                rank,
                now,
                interval=self._scenario.size,
                period=TWIN_PERIOD,
                patience=TWIN_PATIENCE,
                log=log,
                epoch=epoch,
            )

        return make

    def _line(self, stream: str, name: str) -> Callable[[], Line]:
        readers = (*self._readers(stream), f"tap:{name}:{stream}")
        return lambda: Line(stream, readers, retention=self._scenario.retentions.get(stream))
