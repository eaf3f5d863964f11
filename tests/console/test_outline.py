"""What the page is told once of a topology."""

from __future__ import annotations

from pathlib import Path

from benchmarks.console.crowd import crowd_topology
from holdfast.console.topology_view import leaves, outline_of
from holdfast.pipeline.topology import Topology
from tests.console.fake_fleet import fleet_topology


def test_what_has_most_before_it_is_shown_first(tmp_path: Path) -> None:
    fleet = fleet_topology(tmp_path)
    assert leaves(fleet) == ["sums"]
    lonely = fleet.streams["readings"]
    wider = Topology(
        name="wider",
        bucket="1s",
        streams={**fleet.streams, "alone": type(lonely)(lonely.source, "127.0.0.1:1")},
        stages=fleet.stages,
        home=tmp_path,
    )
    assert leaves(wider) == ["sums", "alone"]


def test_every_party_has_its_box_and_every_reader_its_publishers(tmp_path: Path) -> None:
    topology = crowd_topology(tmp_path)
    outline = outline_of(topology)
    assert len(outline["streams"]) == 50
    replicas = [name for name, each in outline["parties"].items() if each["kind"] == "replica"]
    assert len(replicas) == 200
    for name, party in outline["parties"].items():
        assert name in outline["boxes"][party["box"]]["parties"]
        assert set(party["reads"]) == set(outline["boxes"][party["box"]]["inputs"])
    assert {name for layer in outline["layers"] for name in layer} == set(outline["boxes"])
