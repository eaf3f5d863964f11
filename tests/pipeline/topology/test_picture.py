from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree as Xml

import pytest

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pipeline.topology import Topology
from holdfast.pipeline.topology.drawing import draw_topology
from holdfast.pipeline.topology.reference import EXAMPLE
from tests.pipeline.topology.builders import changed, fleet, in_python
from tests.pipeline.topology.test_text import draw_topology as draw_any

SVG = "{http://www.w3.org/2000/svg}"


def boxes(path: Path) -> dict[str, tuple[float, float, float, float]]:
    """Where each box is, by its name: left, top, right, bottom."""
    found = {}
    for group in Xml.parse(path).getroot().iter(f"{SVG}g"):
        x, y = map(float, group.attrib["transform"][10:-1].split(","))
        frame = group.find(f"{SVG}rect")
        name = group.findtext(f"{SVG}text")
        assert frame is not None
        assert name is not None
        width, height = float(frame.attrib["width"]), float(frame.attrib["height"])
        found[name] = (x, y, x + width, y + height)
    return found


def test_every_stream_stage_and_sink_is_drawn_left_to_right(tmp_path: Path) -> None:
    topology = in_python(fleet())
    placed = boxes(draw_topology(topology, tmp_path / "fleet.svg"))
    assert set(placed) == {*topology.streams, *topology.stages, *topology.sinks}
    for name, stage in topology.stages.items():
        assert all(placed[each][2] < placed[name][0] for each in stage.inputs)
    for name, sink in topology.sinks.items():
        assert placed[sink.stream][2] < placed[name][0]


@pytest.mark.parametrize("seed", range(20))
def test_no_box_hides_another_and_all_are_on_the_paper(seed: int, tmp_path: Path) -> None:
    path = draw_topology(draw_any(Random(seed)), tmp_path / "any.svg")
    root = Xml.parse(path).getroot()
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    placed = list(boxes(path).values())
    for at, (left, top, right, bottom) in enumerate(placed):
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        for other in placed[:at]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_the_same_topology_gives_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(EXAMPLE)
    topology = Topology.read(tmp_path / "fleet.toml")
    one = draw_topology(topology, tmp_path / "one.svg").read_bytes()
    assert draw_topology(topology, tmp_path / "two.svg").read_bytes() == one


def test_what_a_file_says_is_escaped(tmp_path: Path) -> None:
    raw = changed("sinks", "archive", "path", "<script>&\"'")
    path = draw_topology(in_python(raw), tmp_path / "fleet.svg")
    assert "<script>" not in path.read_text()
    assert "<script>&\"'" in {text.text for text in Xml.parse(path).iter(f"{SVG}text")}


def test_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ends in \.svg"):
        draw_topology(in_python(fleet()), tmp_path / "fleet.png")
    with pytest.raises(HoldfastError, match="cannot be written"):
        draw_topology(in_python(fleet()), tmp_path / "none" / "fleet.svg")
