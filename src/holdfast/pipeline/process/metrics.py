"""Status of a party as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.pipeline.machine.states import State
from holdfast.runtime.prometheus import MetricsServer, serve_collector


class _Figure(NamedTuple):
    """A figure as Prometheus sees it: holdfast_party_NAME, with _total added if it counts."""

    name: str
    help: str
    counts: bool = False
    label: str | None = None
    """What tells its values apart, if it has several."""


_FIGURES: Final = (
    _Figure("state", "1 for the state the party is in.", label="state"),
    _Figure("link", "1 while the link to a party is up.", label="to"),
    _Figure("stable_rows", "Final rows published since the start.", counts=True),
    _Figure("tentative_rows", "Tentative rows shown since the start.", counts=True),
    _Figure("late_rows", "Rows left out for coming too late.", counts=True),
    _Figure("brought", "What a source has read, by what it was.", counts=True, label="what"),
    _Figure("sink_rows", "Rows that a sink has put away since the start.", counts=True),
    _Figure("sink_batches", "Batches that a sink has stored since the start.", counts=True),
    _Figure("sink_gaps", "Pieces of its stream that a sink has missed.", counts=True),
    _Figure("accused", "How often a replica was found to lie.", counts=True, label="replica"),
    _Figure("quarantined", "1 while the votes of a replica do not count.", label="replica"),
    _Figure("gave_up", "1 if a stream has stopped, for its replicas do not agree.", label="stream"),
    _Figure("recalculated", "Buckets asked for again, for replicas disagreed.", counts=True),
    _Figure("tainted", "Buckets released that may be wrong.", counts=True),
    _Figure("received_bytes", "Bytes of messages received.", counts=True),
    _Figure("refused", "Calls and messages that were refused.", counts=True, label="what"),
    _Figure("delay_new_seconds", "How far what was shown last is behind the clock."),
    _Figure("lag_seconds", "How far the final boundary is behind the clock; below 0: ahead."),
    _Figure("clock_ahead_seconds", "How far it counts ahead of a clock that was set back."),
    _Figure("boundary_seconds", "The final boundary, in seconds since 1970."),
    _Figure("buckets_buffered", "Buckets that wait at the gate."),
    _Figure("waiting_bytes", "Bytes of rows that wait at the gate in memory."),
    _Figure("waiting_disk_bytes", "Bytes of rows that wait at the gate on disk."),
    _Figure("previews_dropped", "Buckets of tentative input dropped at the gate.", counts=True),
    _Figure("batch_seconds", "How long Spark's last batch took."),
    _Figure("state_rows", "Rows of state that Spark keeps for it."),
    _Figure("state_bytes", "Memory that Spark's state takes, in bytes."),
    _Figure("copy_bytes", "Bytes of a peer's state that were taken over, or are being."),
    _Figure("copy_size", "Bytes of a peer's state in all."),
    _Figure("copy_seconds", "How long taking them over takes or took."),
    _Figure("log_bytes", "Bytes of the log on disk."),
)


class PartyCollector(Collector):
    """Reads the figures anew for each request."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        values = _values(status)
        for figure in _FIGURES:
            if figure.name in values:
                yield _family(figure, str(status["party"]), values[figure.name])


def _values(status: Mapping[str, Any]) -> dict[str, Any]:
    """What a status says, under the names of the figures."""
    values = dict(status)
    if "state" in status:
        values["state"] = {state.name: status["state"] == state.name for state in State}
    if "links" in status:
        values["link"] = status["links"]
    for name in ("quarantined", "gave_up"):
        if name in status:
            values[name] = dict.fromkeys(status[name], 1)
    if "boundary" in status:
        values["boundary_seconds"] = status["boundary"] / 1e6
    return values


def _family(figure: _Figure, party: str, value: Any) -> Metric:
    kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
    name = f"holdfast_party_{figure.name}"
    if figure.label is None:
        family = kind(name, figure.help, labels=["party"])
        family.add_metric([party], value)
    else:
        family = kind(name, figure.help, labels=["party", figure.label])
        for each, its in value.items():
            family.add_metric([party, each], float(its))
    return family


def serve_party_metrics(status: Callable[[], Mapping[str, Any]], port: int = 0) -> MetricsServer:
    """Serve what the status of a party says, on 127.0.0.1."""
    return serve_collector(PartyCollector(status), port)
