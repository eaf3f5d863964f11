"""The page for Prometheus, read with the parsers of its own client."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.spark.metrics import COUNTERS, LEVELS, WindowMetrics, serve_metrics
from tests.spark.metrics.readers import scrape
from tests.spark.metrics.reports import OPERATOR, QUERY, observation, progress, started, terminated


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_prometheus_reads_what_the_snapshot_says(metrics: WindowMetrics, accept: str) -> None:
    state = {**OPERATOR, "customMetrics": {"rocksdbSstFileSize": 300}}
    everything = {name: 10 + i for i, name in enumerate((*COUNTERS, *LEVELS))}
    metrics.onQueryProgress(
        progress(
            {"hour": everything, "day": observation(rows=1)},
            stateOperators=[state],
            eventTime={"watermark": "2026-01-01T00:00:00.500Z"},
        )
    )
    with serve_metrics(metrics) as server:
        samples = scrape(server.url, accept)
    hour = {name: value for (name, _, window), value in samples.items() if window == "hour"}
    assert hour == {
        "holdfast_window_rows_total": everything["rows"],
        "holdfast_window_late_rows_total": everything["late"],
        "holdfast_window_answers_total": everything["answers"],
        "holdfast_window_uncertain_answers_total": everything["uncertain"],
        "holdfast_window_pairs_read_total": everything["pairs_read"],
        "holdfast_window_pairs_written_total": everything["pairs_written"],
        "holdfast_window_pairs_deleted_total": everything["pairs_deleted"],
        "holdfast_window_combines_total": everything["combines"],
        "holdfast_window_read_bytes_total": everything["bytes_read"],
        "holdfast_window_written_bytes_total": everything["bytes_written"],
        "holdfast_window_panes": everything["panes"],
        "holdfast_window_open_panes": everything["open_panes"],
        "holdfast_window_keys": everything["keys"],
    }
    assert samples["holdfast_window_rows_total", "sensors", "day"] == 1
    of_query = {name: value for (name, _, window), value in samples.items() if window == ""}
    assert of_query == {
        "holdfast_window_batches_total": 1,
        "holdfast_window_batch_seconds_total": 2.0,
        "holdfast_window_last_batch_seconds": 2.0,
        "holdfast_window_input_rows_per_second": 4.0,
        "holdfast_window_dropped_rows_total": 0,
        "holdfast_window_watermark_seconds": datetime(
            2026, 1, 1, 0, 0, 0, 500_000, UTC
        ).timestamp(),
        "holdfast_window_state_rows": 10,
        "holdfast_window_state_bytes": 1000,
        "holdfast_window_state_disk_bytes": 300,
        "holdfast_window_running": 1,
        "holdfast_window_failed": 0,
    }


def test_one_figure_can_be_asked_for(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(progress({"hour": observation(late=2)}))
    with serve_metrics(metrics) as server:
        samples = scrape(f"{server.url}?name[]=holdfast_window_late_rows_total")
    assert samples == {("holdfast_window_late_rows_total", "sensors", "hour"): 2}


def test_a_query_has_window_figures_from_its_first_batch_on(metrics: WindowMetrics) -> None:
    with serve_metrics(metrics) as server:
        assert scrape(server.url) == {}
        metrics.onQueryStarted(started(name=None))
        before = scrape(server.url)
        metrics.onQueryProgress(progress(name=None))
        after = scrape(server.url)
    assert before["holdfast_window_running", str(QUERY), ""] == 1
    assert ("holdfast_window_rows_total", str(QUERY), "") not in before
    assert after["holdfast_window_rows_total", str(QUERY), ""] == 5


def test_of_queries_with_one_name_the_newest_is_served(metrics: WindowMetrics) -> None:
    metrics.onQueryProgress(progress({"hour": observation(rows=1)}))
    metrics.onQueryTerminated(terminated())
    metrics.onQueryProgress(progress({"hour": observation(rows=2)}, id=str(uuid4())))
    with serve_metrics(metrics) as server:
        samples = scrape(server.url)
    assert samples["holdfast_window_rows_total", "sensors", "hour"] == 2
    assert samples["holdfast_window_running", "sensors", ""] == 1


def test_any_name_survives_the_format(metrics: WindowMetrics) -> None:
    name = 'heat "north"\\{x="1"}\n # größe'
    metrics.onQueryProgress(progress({name: observation(rows=1)}, name=name))
    with serve_metrics(metrics) as server:
        assert scrape(server.url)["holdfast_window_rows_total", name, name] == 1


def serving_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if "holdfast metrics" in name or "process_request" in name]


def test_a_closed_server_leaves_no_thread_and_no_port(metrics: WindowMetrics) -> None:
    server = serve_metrics(metrics)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.0 200")
        assert serving_threads()
    port = server.port
    server.close()
    server.close()
    assert serving_threads() == []
    with serve_metrics(metrics, port) as successor:
        assert successor.port == port


def test_only_the_loopback_address_answers(metrics: WindowMetrics) -> None:
    with serve_metrics(metrics) as server, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5)


def test_a_taken_port_is_named_with_the_remedy(metrics: WindowMetrics) -> None:
    with serve_metrics(metrics) as server:
        with pytest.raises(InvalidArgumentError, match=rf"port: .*:{server.port}: .*or 0 for any"):
            serve_metrics(metrics, server.port)
        assert scrape(server.url) == {}


@pytest.mark.parametrize("port", [-1, 65536, 1.5, "9090", True, None])
def test_what_is_no_port_is_refused(metrics: WindowMetrics, port: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"port: .* is not a port; give"):
        serve_metrics(metrics, port)
