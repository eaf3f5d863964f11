from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from holdfast.config.settings import ByName, Inline, One, Setting, settings_of
from holdfast.pipeline.topology import Security, Sink, Stage, Stream, Topology
from holdfast.pipeline.topology.reference import EXAMPLE, write_reference
from holdfast.pipeline.topology.sinks import SINKS
from holdfast.pipeline.topology.stages import STEPS, Replica
from holdfast.pipeline.topology.streams import SOURCES

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "topology.md"
TABLES = [
    Topology, Security, Stream, Stage, Replica, Sink, *SOURCES.values(), *SINKS.values(),
    *STEPS.flat.values(), *STEPS.nested.values(),
]  # fmt: skip


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == write_reference(), "run scripts/write-topology-reference.py"


def test_the_example_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "fleet.toml").write_text(EXAMPLE)
    assert len(Topology.read(tmp_path / "fleet.toml").parties()) == 12


@pytest.mark.parametrize(
    "setting",
    [setting for table in TABLES for setting in settings_of(table).values()],
    ids=lambda setting: setting.name,
)
def test_every_field_has_a_text_and_an_example_that_it_takes(setting: Setting) -> None:
    assert setting.doc.endswith(".")
    assert f"| `{setting.name}` | " in PAGE.read_text()
    if isinstance(setting.kind.shape, ByName | One):
        return
    value = tomllib.loads(f"x = {setting.example}")["x"]
    if isinstance(setting.kind.shape, Inline):
        assert value in setting.kind.shape.tables
    else:
        assert not list(setting.faults(value))
    if setting.default is not None and not setting.is_required:
        assert setting.read(setting.default) == setting.default
