from __future__ import annotations

import io
from types import ModuleType

import pytest
from rich.console import Console

from soak.campaign import ENOUGH_FAILURES, Outcome, run_cases, seeds_from, until_deadline
from soak.display import SECONDS_BETWEEN_LINES, Display
from soak.runner import main

EVEN = """
DESCRIPTION = "even seeds pass"

def run(seed):
    if seed % 2:
        raise AssertionError(f"{seed} is [odd]")
    return f"half of it is {seed // 2}"
"""

FINE = """
DESCRIPTION = "every seed passes"

def run(seed):
    return "fine"
"""

INTERRUPTED = """
DESCRIPTION = "somebody presses Ctrl-C in the third case"

def run(seed):
    if seed == 3:
        raise KeyboardInterrupt
    return "fine"
"""


@pytest.fixture
def folder(make_folder) -> ModuleType:
    return make_folder(even=EVEN, fine=FINE)


def soak(folder: ModuleType, *arguments: str) -> tuple[int, list[str]]:
    screen = io.StringIO()
    code = main(list(arguments), folder, Console(file=screen, width=40))
    return code, screen.getvalue().splitlines()


def test_a_campaign_that_passes(folder: ModuleType) -> None:
    code, lines = soak(folder, "fine", "--seeds", "7", "--first", "100")
    assert code == 0
    assert lines == [
        "fine: every seed passes",
        "  seeds from 100 on",
        "summary",
        "  fine: 7 passed, 0 failed",
    ]


def test_a_failure_gives_its_seed_and_the_command_that_replays_it(folder: ModuleType) -> None:
    code, lines = soak(folder, "even", "--seeds", "4", "--first", "6")
    assert code == 1
    assert "  FAILED seed 7: AssertionError: 7 is [odd]" in lines
    assert lines.count("    replay: make soak PART=even SEED=7") == 1
    assert "  even: 2 passed, 2 failed" in lines


def test_without_a_name_all_campaigns_run(folder: ModuleType) -> None:
    code, lines = soak(folder, "--seeds", "2", "--first", "0")
    assert code == 1
    assert lines[-3:] == [
        "  even: 1 passed, 1 failed",
        "    replay: make soak PART=even SEED=1",
        "  fine: 2 passed, 0 failed",
    ]


def test_seeds_are_drawn_anew_unless_given(folder: ModuleType) -> None:
    first_seeds = {soak(folder, "fine", "--seeds", "1")[1][1] for _ in range(5)}
    assert len(first_seeds) > 1


def test_a_replay_runs_one_case_in_the_open(folder: ModuleType) -> None:
    assert soak(folder, "even", "--seed", "8") == (
        0,
        ["even: even seeds pass", "  seed 8: half of it is 4"],
    )
    with pytest.raises(AssertionError, match="7 is"):
        soak(folder, "even", "--seed", "7")


def test_a_campaign_stops_when_enough_has_failed(folder: ModuleType) -> None:
    _, lines = soak(folder, "even", "--seeds", "1000", "--first", "1")
    assert f"  even: {ENOUGH_FAILURES - 1} passed, {ENOUGH_FAILURES} failed" in lines


def test_an_interrupt_still_sums_up(make_folder) -> None:
    folder = make_folder(broken_off=INTERRUPTED, then=FINE)
    code, lines = soak(folder, "--seeds", "9", "--first", "1")
    assert code == 130
    assert lines[-1] == "  broken-off: 2 passed, 0 failed, interrupted"


@pytest.mark.parametrize(
    "arguments", [["--seeds", "0"], ["--minutes", "-1"], ["--minutes", "soon"], ["--seed", "3"]]
)
def test_usage_errors_exit_with_2(folder: ModuleType, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        soak(folder, *arguments)
    assert ended.value.code == 2


def test_an_unknown_campaign_is_answered_with_those_there_are(folder: ModuleType, capsys) -> None:
    assert soak(folder, "evn")[0] == 2
    error = capsys.readouterr().err
    assert "did you mean 'even'?" in error
    assert "there are: even, fine" in error


def test_no_campaigns_at_all(make_folder, capsys) -> None:
    assert soak(make_folder())[0] == 2
    assert "nothing to run" in capsys.readouterr().err


def test_time_ends_a_campaign_between_cases() -> None:
    now = 0.0

    def case(seed: int) -> str:
        nonlocal now
        now += 25.0
        return "took 25 seconds"

    seeds = until_deadline(seeds_from(1, None), seconds=60, clock=lambda: now)
    outcome = run_cases("slow", case, seeds, Display(Console(file=io.StringIO())))
    assert (outcome.passed, outcome.failures) == (3, [])


def test_away_from_a_terminal_a_line_is_shown_now_and_then() -> None:
    now = 0.0
    screen = io.StringIO()
    display = Display(Console(file=screen), clock=lambda: now)
    outcome = Outcome("fine", passed=1)
    display.passed(outcome, 17, "too early")
    now = SECONDS_BETWEEN_LINES
    display.passed(outcome, 18, "shown")
    display.passed(outcome, 19, "too early again")
    assert screen.getvalue() == "  fine: 1 passed, 0 failed; seed 18: shown\n"
