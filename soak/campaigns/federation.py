"""Participants that move load by contracts, in the simulator: faults, cheats, pauses, letters that
are sent again, dates that are set, tasks that do not run, and deaths at every step."""

from __future__ import annotations

from functools import partial

from simulator.federation import (
    Scenario,
    draw_breakdowns,
    draw_cheats,
    draw_dates,
    draw_federation,
    draw_pauses,
    draw_replays,
    draw_steady,
    step_crashes,
    try_federation,
)

DESCRIPTION = "load that moves between participants, with crashes, cuts, pauses and cheats"
SCENARIOS = 10
DRAWS = (
    draw_federation,
    draw_steady,
    draw_pauses,
    draw_replays,
    draw_breakdowns,
    draw_cheats,
    partial(draw_cheats, kind="says_any_number"),
    draw_dates,
)


def run(seed: int) -> str:
    """The scenarios of one seed; raises on the first that is not right."""
    moves = deaths = 0
    for number in range(SCENARIOS):
        drawn = SCENARIOS * seed + number
        for draw in DRAWS:
            trial = _check(draw(drawn))
            moves += trial[0]
            deaths += trial[1]
    back = (None, 100_000, 1_000_000, 5_000_000)[seed % 4]
    steps = list(step_crashes(back, chain=seed % 2 == 1, ranges=seed % 3 == 0))
    for scenario in steps[seed % 7 :: 7]:
        _check(scenario)
    return f"{moves} moves, {deaths} deaths, and {len(steps[seed % 7 :: 7])} at a step of a move"


def _check(scenario: Scenario) -> tuple[int, int]:
    trial = try_federation(scenario)
    if trial.problems:
        raise AssertionError(f"seed {scenario.seed}: {trial.problems[0]}\n{scenario}")
    return trial.world.moves, trial.world.deaths
