"""The dashboard for Grafana: every metric in it is one that a party serves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import console
from holdfast.pipeline.process.metrics import PartyCollector
from holdfast.pipeline.process.replica_host import ReplicaCounts

DASHBOARD = json.loads((Path(console.__file__).parent / "grafana.json").read_text())
EVERYTHING: dict[str, Any] = {
    "party": "clean/1",
    **ReplicaCounts().status(0),
    "late_rows": 0,
    "brought": {"rows": 7},
    "sink_rows": 0,
    "sink_batches": 0,
    "sink_gaps": 0,
    "accused": {"clean/2": 1},
    "quarantined": ["clean/2"],
    "recalculated": 0,
    "tainted": 0,
    "gave_up": {"clean": "clean/1 against clean/2"},
    "batch_seconds": 0.5,
    "state_rows": 3,
    "state_bytes": 300,
    "log_bytes": 4096,
    "received_bytes": 77,
    "links": {"readings": True},
    "refused": {"token": 1},
}
"""What sources, replicas and sinks say, all at once."""


def served() -> dict[str, set[str]]:
    """The metrics, and their labels."""
    registry = CollectorRegistry()
    registry.register(PartyCollector(lambda: EVERYTHING))
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def expressions() -> list[str]:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert all(panel["targets"] for panel in panels)
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*asked, *(each["definition"] for each in DASHBOARD["templating"]["list"][1:])]


def test_every_metric_is_served_with_the_labels_that_are_asked_for() -> None:
    metrics = served()
    found = set()
    for expression in expressions():
        for name, labels in re.findall(r"(holdfast_\w+)(?:\{([^}]*)\})?", expression):
            assert name in metrics, f"nobody serves {name}"
            # Prometheus adds the topology, from metrics.json.
            used = {each.partition("=")[0].strip("!~") for each in labels.split(",") if each}
            assert used <= metrics[name] | {"topology"}
            found.add(name)
    assert len(found) > 15


def test_every_metric_that_matters_is_on_it() -> None:
    text = " ".join(expressions())
    unused = {name for name in served() if name not in text}
    assert unused == {"holdfast_party_sink_batches_total"}


def test_legends_use_labels_that_are_there() -> None:
    metrics = served()
    labels = {label for each in metrics.values() for label in each}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
