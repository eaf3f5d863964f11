"""Reading what the metrics show: the snapshot, the page for Prometheus, printed lines."""

from __future__ import annotations

import io
import threading
import urllib.request

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from holdfast.spark.metrics import QueryFigures, WindowMetrics


def only(metrics: WindowMetrics) -> QueryFigures:
    (query,) = metrics.snapshot()
    return query


def named(metrics: WindowMetrics, name: str) -> QueryFigures:
    """For a session where others' queries may just have ended: Spark tells of that late."""
    (query,) = [each for each in metrics.snapshot() if each.name == name]
    return query


def scrape(url: str, accept: str = "text/plain") -> dict[tuple[str, str, str], float]:
    """The samples of the page by name, query and window."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as response:
        page = response.read().decode()
    parse = parse_openmetrics if page.endswith("# EOF\n") else parse_plain
    samples = [sample for family in parse(page) for sample in family.samples]
    found = {(s.name, s.labels["query"], s.labels.get("window", "")): s.value for s in samples}
    assert len(found) == len(samples), "a series occurs twice"
    return found


class Output(io.StringIO):
    """Remembers what was printed and lets a test wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count
