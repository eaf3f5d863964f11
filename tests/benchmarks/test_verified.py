"""Modes of verified jobs in virtual time, as the part `verified` has them."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.parts.verified import APART, SPREAD
from benchmarks.verified.apart import complete, complete_copies
from holdfast.verify.machine import Mode

SEEDS = range(60)


@pytest.mark.parametrize("fault", APART)
def test_hybrid_is_not_slower_than_blocking(fault: str) -> None:
    found = {
        mode: [complete(mode, seed, APART[fault]) for seed in SEEDS]
        for mode in (Mode.HYBRID, Mode.BLOCKING)
    }
    pairs = zip(found[Mode.HYBRID], found[Mode.BLOCKING], strict=True)
    assert median(hybrid[0] / blocking[0] for hybrid, blocking in pairs) <= 1
    again = {run[1] for runs in found.values() for run in runs}
    assert again == {int(fault == "2 liars in one stage")}


def test_without_faults_a_job_takes_as_long_as_copies_of_it() -> None:
    for seed in SEEDS:
        seconds, again = complete(Mode.HYBRID, seed)
        assert again == 0
        assert seconds == pytest.approx(complete_copies(seed), abs=1)


def test_corruption_that_spreads_begins_a_job_again_only_where_nothing_blocks() -> None:
    for seed in SEEDS:
        assert complete(Mode.NON_BLOCKING, seed, APART[SPREAD])[1] == 1
