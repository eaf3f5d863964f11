"""Questions to a running node: its status, its queries, its figures for Prometheus."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.edge.process.config import Layout
from holdfast.edge.process.frames import Answer, Ask, Carried
from holdfast.edge.process.hub import Hub
from holdfast.edge.process.security import read_credentials
from holdfast.errors import InvalidArgumentError, SilentError
from holdfast.runtime.prometheus import MetricsServer, serve_collector

PATIENCE: Final = 5.0
AGAIN: Final = 1.0


class Client:
    """Keeps its connections; a context manager. Not for several threads."""

    def __init__(self, layout: Layout) -> None:
        self._numbers = count(1)
        self._answers: dict[int, Answer] = {}
        credentials = read_credentials(layout.security, layout.home)
        name = f"asker-{os.getpid()}-{time.monotonic_ns()}"
        self._hub = Hub(name, credentials, self._received, addresses=layout.addresses())

    def _received(self, sender: str, message: Carried) -> None:
        if isinstance(message, Answer):
            self._answers[message.number] = message

    def ask(self, node: str, what: str, body: Any = None, *, patience: float = PATIENCE) -> Any:
        """What the node answers. Raises SilentError if it does not."""
        deadline = time.monotonic() + patience
        number = next(self._numbers)
        ask = Ask(number, what, b"" if body is None else json.dumps(body).encode())
        again = 0.0
        while number not in self._answers:
            now = time.monotonic()
            if now > deadline:
                raise SilentError(f"{node}: does not answer; see whether it runs")
            # All questions may be asked twice.
            if now >= again and self._hub.send(node, ask):
                again = now + AGAIN
            self._hub.poll(0.02)
        answer = self._answers.pop(number)
        if answer.error:
            raise InvalidArgumentError(answer.error)
        return json.loads(answer.body)

    def close(self) -> None:
        self._hub.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
