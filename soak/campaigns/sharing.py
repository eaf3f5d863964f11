"""Replicas that share work in the simulator: every guarantee, every step, seed after seed.

Every hundredth case is a stream of a million tuples whose tables must not grow.
"""

from __future__ import annotations

from holdfast.pipeline.machine.sharing import Guarantee
from simulator.sharing import Scenario, draw_beyond, draw_sharing, step_kills, try_sharing
from simulator.sharing.stream import run_stream

DESCRIPTION = "replicas that share work, with deaths, freezes and a bad network, in all guarantees"

LONG = 100
TUPLES = 1_000_000
BOUND = 2 * 1024
"""Twice the capacity: records at a replica and at the sink."""


def run(seed: int) -> str:
    """The scenarios of one seed; raises on the first that is not right."""
    if seed % LONG == 0:
        return _run_long(seed)
    deaths = refused = 0
    for guarantee in Guarantee:
        for scenario in (draw_sharing(seed, guarantee), draw_beyond(seed, guarantee)):
            world = _check(scenario)
            deaths += world[0]
            refused += world[1]
        kills = list(step_kills(guarantee, hops=1 + seed % 2))
        _check(kills[seed % len(kills)])
    return f"9 runs, {deaths} deaths, {refused} packets of the fenced refused"


def _check(scenario: Scenario) -> tuple[int, int]:
    trial = try_sharing(scenario)
    if trial.problems:
        raise AssertionError(f"{scenario.replay}: {trial.problems[0]}\n{scenario}")
    return trial.world.deaths, trial.world.refused


def _run_long(seed: int) -> str:
    grown = run_stream(TUPLES, seed, deaths=20)
    assert grown.delivered == TUPLES, f"{TUPLES - grown.delivered} tuples are lost"
    assert grown.repeated == 0, f"{grown.repeated} tuples came twice"
    most = max(grown.records, grown.kept, grown.in_hand, grown.seen_at_sink)
    assert most <= BOUND, f"a table held {most}, more than {BOUND}: {grown}"
    return f"{TUPLES:,} tuples once each, {grown.deaths} deaths, at most {most} records"
