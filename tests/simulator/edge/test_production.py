"""What is simulated is what runs: the same machines, made with the same options."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.config.settings import Named
from holdfast.edge import machine as edge
from holdfast.edge.machine import Root
from holdfast.edge.process.config import Layout, Sensor
from holdfast.edge.process.demo import write_plant
from holdfast.edge.process.nodes import child_options, intermediate_options
from holdfast.edge.process.root_process import LineKeeper, RootNode, root_options
from holdfast.edge.process.sensor_process import sensor_options
from simulator.edge import Options, draw, judge
from simulator.edge.scenario import Scenario

SOURCES = Path(holdfast.__file__).parent
SHELLS = [
    *sorted((SOURCES / "edge" / "process").glob("*.py")),
    SOURCES / "pipeline" / "sources" / "edge.py",
]
MACHINES = {name for name in edge.__all__ if isinstance(getattr(edge, name), type)}


def _replaced(tree: ast.Module) -> list[str]:
    """Parts of machines that a process would replace: by a class of its own, or by assignment."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            found += sorted(bases & (MACHINES | {"Formation", "Group", "Windows", "Tenure"}))
        targets = node.targets if isinstance(node, ast.Assign) else []
        found += [
            text
            for text in map(ast.unparse, targets)
            if "machine." in text or text.startswith("root.") or ".protocol." in text
        ]
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            found += [ast.unparse(node)] if "machine" in ast.unparse(node) else []
    return found


@pytest.mark.parametrize("path", SHELLS, ids=lambda path: path.name)
def test_a_process_replaces_no_part_of_its_machine(path: Path) -> None:
    assert _replaced(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "class Mine(Root): ...",
        "class Mine(protocol.edge.Child): ...",
        "self.machine.formation = _Planned(layout)",
        "setattr(machine, 'formation', 1)",
    ],
)
def test_such_a_part_would_be_seen(source: str) -> None:
    assert _replaced(ast.parse(source))


def test_the_root_of_a_process_is_made_of_what_the_simulated_one_is(tmp_path: Path) -> None:
    layout = Layout.read(write_plant(tmp_path, children=3, sensors=2, layers=[2]))
    node = RootNode(layout, LineKeeper(None), None)
    try:
        simulated = Root("root", root_options(layout))
        assert {name: type(part) for name, part in vars(node.machine).items()} == {
            name: type(part) for name, part in vars(simulated).items()
        }
        assert type(node.machine) is Root
    finally:
        node.close()


def _from_file(layout: Layout, seed: int, family: str) -> Scenario:
    """A scenario of the simulator with the options that the processes of a file have."""
    drawn = draw(seed, Options("exactly-once", family))
    return replace(
        drawn,
        root=replace(root_options(layout), plan=drawn.root.plan),
        child=child_options(layout),
        intermediate=intermediate_options(layout),
        emissions=tuple(
            tuple(
                replace(each, options=sensor_options(layout, Sensor()), ahead=0, stamps=True)
                for each in tier
            )
            for tier in drawn.emissions
        ),
    )


@pytest.mark.parametrize("family", ["calm", "crashes", "roots"])
@pytest.mark.parametrize("seed", range(3))
def test_options_of_a_file_are_right_in_the_simulator(
    tmp_path: Path, seed: int, family: str
) -> None:
    layout = Layout.read(write_plant(tmp_path, children=3, sensors=1))
    # Who takes part is drawn: windows need not wait for sensors of the file.
    layout = replace(layout, sensors=Named({}))
    trial = judge(_from_file(layout, seed, family))
    assert not trial.problems
    assert trial.simulation.windows
