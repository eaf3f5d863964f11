from __future__ import annotations

from pathlib import Path

import pytest

from simulator.campaign.one import run_one
from simulator.campaign.replay import Replay
from simulator.faults import FaultKind
from simulator.scenario import Options, Scenario

OPTIONS = Options(topology="chain-2", faults="frequent")
REPLAY = Replay(1, OPTIONS)


def test_the_scenario_its_events_and_the_verdict_are_told(console, printed, failing) -> None:
    failing(lambda scenario: False)
    assert run_one(console, REPLAY)
    faults = REPLAY.scenario().faults
    for words in (
        "seed 1: policy switch, topology chain-2, faults frequent",
        "m2 (to a client)",
        "max_delay: ",
        "readings of a, b, c; buckets of 0.1 s",
        f"│ {len(faults) - 1} │",
        f"{faults[0].kind.value} begins",
        "seed 1 is right: ",
    ):
        assert words in printed()
    assert "processes bucket" not in printed()


def test_the_same_seed_is_told_the_same_twice(console, printed) -> None:
    run_one(console, REPLAY)
    once = printed()
    run_one(console, REPLAY)
    assert printed() == once + once


def test_only_the_faults_kept_happen(console, printed, failing) -> None:
    failing(lambda scenario: len(scenario.faults) == 1)
    assert not run_one(console, Replay(1, OPTIONS, (2,)))
    assert printed().count(" begins") == 1
    assert "--faults frequent --keep 2\n" in printed()


def test_without_faults(console, printed) -> None:
    assert run_one(console, Replay(1, OPTIONS, ()))
    assert "no faults" in printed()


def test_liars_are_named(console, printed, failing) -> None:
    failing(lambda scenario: False)
    run_one(console, Replay(0, Options(policy="vote", faults="none")))
    assert " lies in " in printed()


def test_sources_with_a_hot_standby_are_named(console, printed, failing) -> None:
    failing(lambda scenario: False)
    options = Options("chain-1", faults="crashes")
    seed = next(seed for seed in range(100) if "a" in Replay(seed, options).scenario().twins)
    run_one(console, Replay(seed, options))
    assert "a has a hot standby: a/0 and a/1 publish it" in printed()


def test_the_whole_trace_goes_into_a_file(console, printed, tmp_path: Path) -> None:
    run_one(console, REPLAY, trace=tmp_path / "trace.txt")
    lines = (tmp_path / "trace.txt").read_text().splitlines()
    assert any("base processes buckets 0 to 0" in line for line in lines)
    assert f"({len(lines):,} events)" in printed()


def test_shrinking_keeps_the_numbers_of_the_faults(console, printed, failing) -> None:
    def has_freeze(scenario: Scenario) -> bool:
        return any(fault.kind is FaultKind.FREEZE for fault in scenario.faults)

    failing(has_freeze)
    assert not run_one(console, REPLAY, shrinking=True)
    kept = int(printed().rpartition("--keep ")[2].split()[0])
    assert REPLAY.scenario().faults[kept].kind is FaultKind.FREEZE
    assert "fails with 1 of its" in printed()
    assert "at full length, which fails too" in printed()
    assert not run_one(console, Replay(1, OPTIONS, (kept,)))


def test_a_broken_simulator_shows_its_traceback(
    console, printed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError("by [nothing]")

    monkeypatch.setattr("simulator.campaign.result.try_scenario", breaks)
    assert not run_one(console, REPLAY, picture=tmp_path / "run.png")
    assert "the simulator broke: ZeroDivisionError: by [nothing]" in printed()
    assert "Traceback (most recent call last)" in printed()
