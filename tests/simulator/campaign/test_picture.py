from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdfast.errors import InvalidArgumentError
from simulator.campaign.picture import draw_run
from simulator.campaign.replay import Replay
from simulator.faults import Fault, FaultKind
from simulator.scenario import Options, Scenario
from simulator.simulation import Simulation


def texts(path: Path) -> str:
    return " ".join(" ".join(ElementTree.parse(path).getroot().itertext()).split())


def scenario(*faults: Fault, policy: str = "switch") -> Scenario:
    drawn = Replay(0, Options("chain-1", policy, "none")).scenario()
    return drawn.with_faults(faults)


def test_an_outage_is_drawn_with_all_that_came_of_it(tmp_path: Path) -> None:
    away = Fault(FaultKind.PARTITION, 1_000_000, 4_000_000, ("a",))
    run = Simulation(scenario(away)).run()
    words = texts(draw_run(run, tmp_path / "run.svg"))
    for text in (
        "seed 0, policy switch, topology chain-1, faults none",
        "partition: a from all others",
        "stable: final",
        "tentative: a preview",
        "UNDO: previews are withdrawn",
        "max_delay: ",
        "s1/0",
        "STABILIZATION: catching up",
    ):
        assert text in words


def test_without_faults_and_without_previews(tmp_path: Path) -> None:
    run = Simulation(scenario(policy="order")).run()
    words = texts(draw_run(run, tmp_path / "run.svg"))
    assert "nothing" in words
    assert "tentative" not in words
    assert "max_delay" not in words


def test_many_faults_of_all_kinds(tmp_path: Path) -> None:
    run = Simulation(Replay(2, Options(faults="frequent")).scenario()).run()
    drawn = draw_run(run, str(tmp_path / "run.PNG"))
    assert drawn.read_bytes().startswith(b"\x89PNG\r\n")


def test_a_run_draws_twice_the_same(tmp_path: Path) -> None:
    run = Simulation(scenario()).run()
    one = draw_run(run, tmp_path / "one.svg").read_bytes()
    assert draw_run(run, tmp_path / "two.svg").read_bytes() == one


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"run\.gif: a picture is \.png or \.svg"):
        draw_run(Simulation(scenario()), tmp_path / "run.gif")
