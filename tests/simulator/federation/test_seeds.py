"""The real load managers under faults. A failure is a seed that `draw_federation` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulator.federation import (
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
from simulator.federation.cheating import CHEATS
from simulator.federation.scenario import BUCKET, Scenario

BATCH = 10


@pytest.mark.parametrize("first", range(0, 50, BATCH))
def test_seeds(first: int) -> None:
    for seed in range(first, first + BATCH):
        problems = try_federation(draw_federation(seed)).problems
        assert not problems, f"replay: try_federation(draw_federation({seed}))\n{problems}"


@pytest.mark.parametrize(
    "draw", [draw_breakdowns, draw_cheats, draw_dates, draw_pauses, draw_replays]
)
@pytest.mark.parametrize("first", range(0, 30, BATCH))
def test_no_honest_participant_loses_by_cheats_or_pauses(
    first: int, draw: Callable[[int], Scenario]
) -> None:
    for seed in range(first, first + BATCH):
        problems = try_federation(draw(seed)).problems
        assert not problems, f"replay: try_federation({draw.__name__}({seed}))\n{problems}"


@pytest.mark.parametrize(
    "scenario",
    [
        draw_cheats(2619661818),
        draw_pauses(2619661844),
        draw_cheats(2619661948),
        draw_cheats(2619661976),
        draw_federation(2619661816),
        draw_cheats(77040, "says_any_number"),
        draw_replays(77021),
        draw_replays(1667565268),
        draw_cheats(1667565386),
        draw_dates(3119230168),
        draw_steady(1667564896),
    ],
    ids=[
        "a seller that dies again and again",
        "letters that overtake each other",
        "a task that does not start at home",
        "the same, between honest ones",
        "a buyer that is asked for too much again and again",
        "a renewal that is agreed to when the loan has failed",
        "a task that goes around in circles, and is paid in both directions",
        "the same, by a contract without a duration",
        "a date that is set forward while a buyer is down",
        "a date that is set back, between honest ones",
        "tasks that are given back while others are offered",
    ],
)
def test_seeds_that_were_not_right(scenario: Scenario) -> None:
    assert try_federation(scenario).problems == ()


@pytest.mark.parametrize("first", range(0, 10, BATCH))
def test_numbers_of_a_cheat_end_nobody(first: int) -> None:
    for seed in range(first, first + BATCH):
        problems = try_federation(draw_cheats(seed, "says_any_number")).problems
        assert not problems, f"replay: draw_cheats({seed}, 'says_any_number')\n{problems}"


def test_cheats_do_business_in_the_seeds() -> None:
    """Else nothing would be shown: each way to cheat comes to deals, disputes and pauses."""
    worlds = [try_federation(draw_cheats(seed)).world for seed in range(40)]
    kinds = {kind for world in worlds for kind in world.scenario.cheats.values()}
    assert kinds == CHEATS.keys()
    disputes = sum(
        len(manager.books.ledger.disputes) for world in worlds for manager in world.honest.values()
    )
    assert disputes > 10
    assert sum(world.moves for world in worlds) > 100
    assert sum(world.pauses for world in worlds) > 10
    assert any(world.scenario.breakdowns for world in worlds)


def test_planned_moves_compute_every_bucket_at_one_place() -> None:
    moves = 0
    for seed in range(15):
        trial = try_federation(draw_steady(seed))
        assert trial.problems == (), seed
        moves += trial.world.moves
    assert moves > 25


@pytest.mark.parametrize(
    ("back", "ranges"),
    [(1_000_000, False), (5_000_000, True), (None, False)],
    ids=["soon", "late", "never"],
)
def test_a_death_at_every_step_of_a_move(back: int | None, ranges: bool) -> None:
    deaths = 0
    for scenario in step_crashes(back, ranges=ranges):
        trial = try_federation(scenario)
        assert trial.problems == (), scenario.step_crash
        deaths += trial.world.deaths
    assert deaths > 100


def test_a_death_at_every_third_step_of_a_chain() -> None:
    for scenario in list(step_crashes(5_000_000, chain=True))[::3]:
        trial = try_federation(scenario)
        assert trial.problems == (), scenario.step_crash


def test_faults_are_met_in_the_seeds() -> None:
    """Else they would show nothing: deaths, fences, cancelled and refused loans."""
    worlds = [try_federation(draw_federation(seed)).world for seed in range(25)]
    sent = sum((world.sent for world in worlds), start=type(worlds[0].sent)())
    assert sum(world.deaths for world in worlds) > 20
    for name in ("Cancel", "Refuse", "Renewed", "HandBack", "Release"):
        assert sent[name] > 5, name
    twice = [
        runs
        for world in worlds
        for runs in world.computed.values()
        if len({host for host, _ in runs}) > 1
    ]
    assert twice, "a bucket was computed at two places, behind a fence"
    assert all(world.now // BUCKET > 100 for world in worlds)


@pytest.mark.parametrize("draw", [draw_federation, draw_steady])
def test_replicas_of_a_stage_are_never_at_one_participant(
    draw: Callable[[int], Scenario],
) -> None:
    moves = refused = 0
    for seed in range(15):
        trial = try_federation(_in_stages(draw(seed)))
        assert trial.problems == (), seed
        hosts: dict[tuple[str, int, str], set[str]] = {}
        for (task, bucket), runs in trial.world.computed.items():
            for host, _ in runs:
                hosts.setdefault((host, bucket, task[-1]), set()).add(task)
        assert all(len(tasks) == 1 for tasks in hosts.values()), seed
        moves += trial.world.moves
        refused += sum(bool(p.manager.buyer.apart) for p in trial.world.parties.values())
    assert moves > 10
    assert refused > 0


def _in_stages(scenario: Scenario) -> Scenario:
    """The first tasks of all are replicas of one stage, so are the second ..."""
    participants = {
        name: replace(
            each,
            tasks=tuple(replace(task, stage=f"stage {task.id[-1]}") for task in each.tasks),
        )
        for name, each in scenario.participants.items()
    }
    return replace(scenario, participants=participants)
