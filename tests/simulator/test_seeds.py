"""Many seeds of every policy under all kinds of faults: nothing is ever wrong.

A failure names the command that replays it. `python -m simulator` runs any number of others.
"""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.errors import InvalidArgumentError
from simulator.scenario import BYZANTINE, FAULTS, POLICIES, UNRULY, Options, draw_scenario
from simulator.topologies import TOPOLOGIES
from simulator.trial import try_seed

BATCH = 10

LASTING = "lasting"
COUNTS = dict.fromkeys(FAULTS, 30) | {
    "none": 10,
    "wipes": 10,
    "varied": 40,
    "restarts": 20,
    "clocks": 20,
}
"""Of each kind of faults; those with all are as many as make 300 of the policy."""
NAMED = 6
TEN_MINUTES = [("switch", 1), ("order", 2)]
"""Few, for they take as long as a hundred others."""

FAMILIES = [
    ("switch", "any", "all", 60),
    ("order", "any", "all", 110),
    *(
        (policy, "any", kind, COUNTS[kind])
        for policy in ("switch", "order")
        for kind in FAULTS[1:]
        if kind not in (UNRULY, LASTING)
    ),
    *((policy, "any", "restarts", 20) for policy in ("vote", "vote-latest", "first", "latest")),
    *((policy, "any", "all", 100) for policy in ("vote", "vote-latest", "sample")),
    *((policy, "any", "all", 150) for policy in ("first", "latest")),
    ("vote", "any", UNRULY, 30),
    ("vote-latest", "any", UNRULY, 10),
    ("sample", "any", UNRULY, 20),
    ("sample", "any", "long", 30),
]

FOUND = [
    *((seed, Options(faults="varied")) for seed in (356840603, 356840459, 356840493, 1023)),
    # A step of a replica's clock: all inputs seemed late for 64 buckets.
    (48, Options(faults="clocks")),
    # Silence of a source whose first row says the time 0, on a machine whose clock is ahead.
    (71, Options(faults="clocks")),
    # A source that waits for its clock was always later than usual: previews for as long as it did.
    (732001869, Options(faults="clocks")),
    # Each stretch that was given up put off the next preview.
    (990100206, Options(faults="restarts")),
    # A stage whose readers had no room seemed to correct, so that what depends on it was not read.
    (920000569, Options(policy="order", faults="long")),
    (920000587, Options(policy="order", faults="long")),
    # The end of the run between a pause of a reader and the word of it: a fault of the oracle.
    (920000314, Options(policy="order", faults="none")),
    # A reader that had lost its state waited for the vote of a replica that kept it no longer.
    (813001688, Options(policy="vote", faults="frequent")),
    # Of one that was trusted and told all in disorder, a bucket or two came with each heartbeat.
    (1795033529, Options(policy="sample", faults=UNRULY)),
    # Slow stages take long for what a short fault has kept from them: a fault of the oracle.
    (1500150454, Options(faults="varied")),
]
"""Seeds of campaigns that have shown faults, which are mended."""


@pytest.mark.parametrize(
    ("options", "first"),
    [
        pytest.param(Options(topology, policy, faults), first, id=f"{policy}-{faults}-{first}")
        for policy, topology, faults, count in FAMILIES
        for first in range(0, count, BATCH)
    ],
)
def test_seeds(options: Options, first: int) -> None:
    for seed in range(first, first + BATCH):
        check_seed(seed, options)


@pytest.mark.parametrize(("policy", "seed"), TEN_MINUTES)
def test_ten_minutes(policy: str, seed: int) -> None:
    check_seed(seed, Options(policy=policy, faults=LASTING))


@pytest.mark.parametrize(("seed", "options"), FOUND)
def test_seeds_that_once_failed(seed: int, options: Options) -> None:
    check_seed(seed, options)


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name != "any"])
def test_named_topologies(topology: str) -> None:
    for seed in range(NAMED):
        check_seed(seed, Options(topology))


def check_seed(seed: int, options: Options) -> None:
    problems = try_seed(seed, options).problems
    assert not problems, (
        f"replay: python -m simulator --seed {seed} --policy {options.policy} "
        f"--topology {options.topology} --faults {options.faults}\n" + "\n".join(problems)
    )


def test_every_policy_has_its_seeds() -> None:
    tried = Counter(dict.fromkeys(POLICIES, 0))
    for policy, _, _, count in FAMILIES:
        tried[policy] += count
    tried["switch"] += NAMED * (len(TOPOLOGIES) - 1)
    assert all(tried.values())
    for family in (("switch",), ("order",), ("vote", "vote-latest", "sample"), ("first", "latest")):
        assert sum(tried[policy] for policy in family) >= 300, family


def test_liars_of_all_kinds_are_drawn_two_of_seven_too() -> None:
    drawn = [draw_scenario(seed, Options(policy="vote", faults=UNRULY)) for seed in range(30)]
    kinds = {lie.kind for scenario in drawn for lie in scenario.liars.values()}
    assert kinds == {"omitting", "repeating", "disordering"}
    sizes = {(len(scenario.liars), len(scenario.replicas["s1"])) for scenario in drawn}
    assert sizes == {(1, 4), (2, 7)}


@pytest.mark.parametrize("policy", [name for name in POLICIES if name not in BYZANTINE])
def test_unruly_liars_are_for_policies_that_have_liars(policy: str) -> None:
    with pytest.raises(InvalidArgumentError, match="give it with vote, vote-latest, sample"):
        Options(policy=policy, faults=UNRULY)


def test_restarts_are_not_for_sample() -> None:
    with pytest.raises(InvalidArgumentError, match="give it with another policy"):
        Options(policy="sample", faults="restarts")
