"""The page for Prometheus of a party."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.process.metrics import PartyCollector, serve_party_metrics
from holdfast.pipeline.process.replica_host import ReplicaCounts
from holdfast.pipeline.sinks.outlets import Outlet
from tests.transport.parties import no_threads_left

Labels = tuple[tuple[str, str], ...]


def samples(page: str) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def read(url: str) -> dict[tuple[str, Labels], float]:
    with urlopen(url, timeout=60) as answer:
        return samples(answer.read().decode())


def replica() -> dict[str, Any]:
    counts = ReplicaCounts(stable=12, tentative=3, state="UP_FAILURE")
    return {
        "party": "clean/1",
        **counts.status(1_500_000),
        "batch_seconds": 0.25,
        "log_bytes": 4096,
        "received_bytes": 77,
        "links": {"readings": True, "clean/2": False},
        "callers": ["archive"],
    }


def test_all_figures_of_a_replica_are_on_the_page() -> None:
    party: Labels = (("party", "clean/1"),)
    with no_threads_left(), serve_party_metrics(replica) as server:
        found = read(server.url)
    assert found["holdfast_party_stable_rows_total", party] == 12
    assert found["holdfast_party_tentative_rows_total", party] == 3
    assert found["holdfast_party_received_bytes_total", party] == 77
    assert found["holdfast_party_lag_seconds", party] == 1.5
    assert found["holdfast_party_batch_seconds", party] == 0.25
    assert found["holdfast_party_log_bytes", party] == 4096
    assert found["holdfast_party_buckets_buffered", party] == 0
    for state in State:
        labels = (*party, ("state", state.name))
        assert found["holdfast_party_state", labels] == (state is State.UP_FAILURE)
    assert found["holdfast_party_link", (*party, ("to", "readings"))] == 1
    assert found["holdfast_party_link", (*party, ("to", "clean/2"))] == 0


def test_all_figures_of_a_sink_are_on_the_page() -> None:
    outlet = Outlet("archive", lambda position, tentative: pytest.fail("nothing is read"))
    outlet.counts.update(rows=7, batches=2, gaps=1)
    found = samples(generate_latest(collected(outlet.status())).decode())
    party: Labels = (("party", "archive"),)
    assert found["holdfast_party_sink_rows_total", party] == 7
    assert found["holdfast_party_sink_batches_total", party] == 2
    assert found["holdfast_party_sink_gaps_total", party] == 1
    assert found["holdfast_party_boundary_seconds", party] == 0
    assert found["holdfast_party_lag_seconds", party] > 1e9
    assert not any(name == "holdfast_party_state" for name, _ in found)


def test_what_was_refused_or_brought_is_told_apart() -> None:
    status = {
        "party": "readings",
        "refused": Counter(token=3, message=1),
        "brought": {"rows": 10, "malformed_messages": 2},
    }
    found = samples(generate_latest(collected(status)).decode())
    assert found == {
        ("holdfast_party_refused_total", (("party", "readings"), ("what", "token"))): 3,
        ("holdfast_party_refused_total", (("party", "readings"), ("what", "message"))): 1,
        ("holdfast_party_brought_total", (("party", "readings"), ("what", "rows"))): 10,
        (
            "holdfast_party_brought_total",
            (("party", "readings"), ("what", "malformed_messages")),
        ): 2,
    }


def collected(status: dict[str, Any]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PartyCollector(lambda: status))
    return registry


def test_what_was_found_out_about_replicas_is_on_the_page() -> None:
    found = {
        "accused": {"clean/3": 5},
        "quarantined": ["clean/3"],
        "gave_up": {"clean": "clean/1 against clean/2"},
        "recalculated": 2,
        "tainted": 7,
        "waits_for": [],
    }
    registry = CollectorRegistry()
    registry.register(PartyCollector(lambda: replica() | found))
    page = samples(generate_latest(registry).decode())
    party = ("party", "clean/1")
    assert page["holdfast_party_accused_total", (party, ("replica", "clean/3"))] == 5
    assert page["holdfast_party_quarantined", (party, ("replica", "clean/3"))] == 1
    assert page["holdfast_party_gave_up", (party, ("stream", "clean"))] == 1
    assert page["holdfast_party_recalculated_total", (party,)] == 2
    assert page["holdfast_party_tainted_total", (party,)] == 7


def test_what_a_party_does_not_say_is_left_out() -> None:
    page = generate_latest(collected({"party": "readings", "state": "STABLE"})).decode()
    assert {name for name, _ in samples(page)} == {"holdfast_party_state"}


def test_figures_are_read_anew_for_each_request() -> None:
    status: dict[str, Any] = {"party": "a", "state": "STABLE", "late_rows": 1}
    registry = collected(status)
    for status["late_rows"] in (1, 2):
        found = samples(generate_latest(registry).decode())
        assert found["holdfast_party_late_rows_total", (("party", "a"),)] == status["late_rows"]


def test_a_port_that_is_taken_is_told() -> None:
    with (
        serve_party_metrics(replica) as server,
        pytest.raises(InvalidArgumentError, match="give another port"),
    ):
        serve_party_metrics(replica, server.port)
