"""The figures of a node for Prometheus: every number that it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.prometheus import MetricsServer, serve_collector

__all__ = ["serve_node_metrics"]


class _Figures(Collector):
    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[GaugeMetricFamily]:
        status = self._status()
        node = str(status["node"])
        for name, value in status.items():
            if isinstance(value, int | float):
                yield _gauge(name, [], [((node,), float(value))])
            elif name in ("phi", "network", "bytes"):
                label = "peer" if name == "phi" else "kind"
                rows: list[tuple[tuple[str, ...], float]] = [
                    ((node, key), float(each)) for key, each in value.items()
                ]
                yield _gauge(name, [label], rows)


def _gauge(
    name: str, labels: list[str], rows: list[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        f"holdfast_edge_{name}", f"`{name}` of a node of the edge.", labels=["node", *labels]
    )
    for values, value in rows:
        family.add_metric(values, value)
    return family


def serve_node_metrics(status: Callable[[], Mapping[str, Any]], port: int) -> MetricsServer:
    """Figures are read while the node works: they may be of slightly different moments."""
    return serve_collector(_Figures(status), port)
