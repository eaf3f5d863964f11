from __future__ import annotations

import shlex

import pytest

from holdfast.errors import InvalidArgumentError
from simulator.campaign.replay import Replay, parse_keep
from simulator.scenario import Options, draw_scenario

OPTIONS = Options(topology="chain-2", policy="order", faults="frequent")


@pytest.mark.parametrize(
    ("keep", "last"),
    [(None, "frequent"), ((), "none"), ((0, 3), "0,3")],
)
def test_the_command_names_all_that_decides_the_run(
    keep: tuple[int, ...] | None, last: str
) -> None:
    words = shlex.split(Replay(12, OPTIONS, keep).command())
    assert words[:11] == shlex.split(
        "python -m simulator --seed 12 --policy order --topology chain-2 --faults frequent"
    )
    assert words[-1] == last
    assert ("--keep" in words) == (keep is not None)
    if keep is not None:
        assert parse_keep(words[-1]) == keep


def test_only_the_faults_kept_happen_and_they_keep_their_numbers() -> None:
    drawn = draw_scenario(12, OPTIONS)
    replay = Replay(12, OPTIONS, (1, 4))
    assert replay.scenario().faults == (drawn.faults[1], drawn.faults[4])
    assert list(replay.numbers()) == [1, 4]
    assert list(Replay(12, OPTIONS).numbers()) == list(range(len(drawn.faults)))
    assert Replay(12, OPTIONS, ()).scenario().faults == ()


def test_a_fault_that_there_is_not() -> None:
    with pytest.raises(InvalidArgumentError, match="no fault 99 in seed 12, which has"):
        Replay(12, OPTIONS, (0, 99)).scenario()


@pytest.mark.parametrize(("text", "keep"), [("3", (3,)), (" 5, 0,5", (0, 5)), ("none", ())])
def test_numbers_of_faults(text: str, keep: tuple[int, ...]) -> None:
    assert parse_keep(text) == keep


@pytest.mark.parametrize("text", ["", "one", "1;2", "0-3"])
def test_what_are_no_numbers_of_faults(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="give them like 0,3,5, or none"):
        parse_keep(text)
