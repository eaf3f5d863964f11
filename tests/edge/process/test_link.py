"""A dead link between two children that all others hear."""

from __future__ import annotations

from pathlib import Path

from harness.edge import linked


def test_two_children_with_a_dead_link_do_not_fight(tmp_path: Path) -> None:
    with linked(tmp_path, children=2, sensors=2, rate=200) as (trial, proxy):
        before = sum(trial.status(name)["takeovers"] for name in ("c1", "c2"))
        proxy.cut()
        # Long enough for hundreds of take-overs.
        trial.wait_for_window(trial.through() + 4_000_000)
        said = [trial.status(name) for name in ("c1", "c2")]
        # Each may take over once before it is told that the other lives.
        assert sum(each["takeovers"] for each in said) - before <= 2
        assert [each["down"] for each in said] == [[], []]
        assert {sent for each in said for sent in each["bytes"]} >= {"Probe", "Relayed"}
        proxy.heal()
        trial.wait(lambda: [trial.status(n)["owned"] for n in ("c1", "c2")] == [[0], [1]])
        trial.wait_for_window(trial.through() + 2_000_000)
        windows = trial.check()
        assert all(each["complete"] for each in windows)
