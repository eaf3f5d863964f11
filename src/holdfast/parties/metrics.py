"""What a party says of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.prometheus import MetricsServer, serve_collector
from holdfast.protocol.states import State

__all__ = ["PartyCollector", "serve_party_metrics"]


class _Figure(NamedTuple):
    """A figure as Prometheus sees it: holdfast_party_NAME, with _total added if it counts."""

    name: str
    help: str
    counts: bool = False


_FIGURES: Final = (
    _Figure("stable_rows", "Final rows published since the start.", counts=True),
    _Figure("tentative_rows", "Tentative rows shown since the start.", counts=True),
    _Figure("late_rows", "Rows left out for coming too late.", counts=True),
    _Figure("received_bytes", "Bytes of messages received.", counts=True),
    _Figure("delay_new_seconds", "How far what was shown last is behind the clock."),
    _Figure("lag_seconds", "How far the final boundary is behind the clock."),
    _Figure("buckets_buffered", "Buckets that wait at the gate."),
    _Figure("batch_seconds", "How long Spark's last batch took."),
    _Figure("log_bytes", "Bytes of the log on disk."),
)


class PartyCollector(Collector):
    """Reads the figures anew for each request."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        party = str(status["party"])
        for figure in _FIGURES:
            if figure.name in status:
                kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
                family = kind(f"holdfast_party_{figure.name}", figure.help, labels=["party"])
                family.add_metric([party], status[figure.name])
                yield family
        yield self._states(party, status)
        yield self._links(party, status)

    def _states(self, party: str, status: Mapping[str, Any]) -> Metric:
        family = GaugeMetricFamily(
            "holdfast_party_state", "1 for the state the party is in.", labels=["party", "state"]
        )
        for state in State:
            family.add_metric([party, state.name], float(status["state"] == state.name))
        return family

    def _links(self, party: str, status: Mapping[str, Any]) -> Metric:
        family = GaugeMetricFamily(
            "holdfast_party_link", "1 while the link to a party is up.", labels=["party", "to"]
        )
        for to, is_up in status.get("links", {}).items():
            family.add_metric([party, to], float(is_up))
        return family


def serve_party_metrics(status: Callable[[], Mapping[str, Any]], port: int = 0) -> MetricsServer:
    """Serve what the status of a party says, on 127.0.0.1."""
    return serve_collector(PartyCollector(status), port)
