from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from simulator.campaign.many import run_many
from simulator.campaign.replay import Replay
from simulator.scenario import Options

OPTIONS = Options(topology="chain-1", faults="crashes")


def test_a_summary_says_what_was_run(console, printed, failing) -> None:
    failing(lambda scenario: False)
    assert run_many(console, OPTIONS, range(3, 6), workers=1)
    assert "seeds 3 to 5, policy switch, topology chain-1, faults crashes" in printed()
    for what in ("seeds run        │ 3 ", "none", "on 1 process,", "UNDOs", "crash"):
        assert what in printed()
    assert "FAILED" not in printed()


def test_a_failure_says_what_is_wrong_and_how_to_see_it_again(console, printed, failing) -> None:
    failing(lambda scenario: scenario.seed == 4)
    assert not run_many(console, OPTIONS, range(3, 6), workers=1)
    lines = printed().splitlines()
    at = lines.index("FAILED seed 4")
    assert lines[at + 1 : at + 6] == ["  all is lost"] * 4 + ["  and 2 more"]
    assert lines[at + 6] == f"  replay: {Replay(4, OPTIONS).command()}"


def test_five_failures_are_enough(console, printed, failing) -> None:
    failing(lambda scenario: True)
    assert not run_many(console, OPTIONS, range(100), workers=1)
    assert printed().count("FAILED seed") == 5
    assert "stopped after 5 failures" in printed()


def test_failures_are_made_smaller_and_the_first_is_drawn(
    console, printed, failing, tmp_path: Path
) -> None:
    failing(lambda scenario: scenario.seed == 4)
    picture = tmp_path / "run.svg"
    run_many(console, OPTIONS, range(3, 6), workers=1, shrinking=True, picture=picture)
    assert "fails with 0 of its" in printed()
    assert f"replay: {Replay(4, OPTIONS, ()).command()}" in printed()
    assert "picture of seed 4" in printed()
    assert "<svg" in picture.read_text()


def test_no_failure_no_picture(console, printed, failing, tmp_path: Path) -> None:
    failing(lambda scenario: False)
    run_many(console, OPTIONS, range(1), workers=1, picture=tmp_path / "run.svg")
    assert "no picture, for no seed failed" in printed()
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_a_summary(console, printed, failing) -> None:
    def interrupt_at_four(scenario) -> bool:
        if scenario.seed == 4:
            raise KeyboardInterrupt
        return False

    failing(interrupt_at_four)
    with pytest.raises(KeyboardInterrupt):
        run_many(console, OPTIONS, range(3, 6), workers=1)
    assert "faults crashes: interrupted" in printed()
    assert "seeds run        │ 1 " in printed()


@pytest.mark.parametrize(
    ("options", "seeds", "workers", "remedy"),
    [
        (OPTIONS, range(0), 1, "at least one"),
        (OPTIONS, range(-3, 3), 1, "none below 0"),
        (OPTIONS, range(3), 0, "workers: is 0; give at least 1"),
        (Options(topology="chian-1"), range(3), 2, "give one of any, chain-1"),
    ],
)
def test_mistakes_are_explained(
    console, options: Options, seeds: range, workers: int, remedy: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=remedy):
        run_many(console, options, seeds, workers=workers)
