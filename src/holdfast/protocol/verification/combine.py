"""Several verifiers of one job, as one: what enough of them say.

Replicas report to all of them. More than half must say the same; of those within replicas, as many
as replicas must agree. Verifiers are in different runs at times, for instance if a replica told
them different things: a run is to be computed if enough of them ask for it or need nothing more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.protocol.verification.plan import Plan
from holdfast.protocol.verification.reports import Run
from holdfast.protocol.verification.verdicts import (
    Agreed,
    Finding,
    Holder,
    JobState,
    StageState,
    Standing,
    Verdict,
)

__all__ = ["combine"]


def combine(
    plan: Plan, retries: int, heard: Sequence[Standing | None], needed: int | None = None
) -> Standing:
    """`heard`: what each verifier says; None for one that does not answer. `needed`: how many must
    say the same; more than half if it is not given."""
    needed = needed or len(heard) // 2 + 1
    standings = [each for each in heard if each is not None]
    if len(heard) == len(standings) == needed == 1:
        return standings[0]
    verdicts = {
        stage: _verdict(plan, retries, needed, [each.verdicts[stage] for each in standings], stage)
        for stage in plan.stages
    }
    findings: dict[Finding, None] = {}
    for standing in standings:
        findings.update(dict.fromkeys(standing.findings))
    doubts = {doubt: None for standing in standings for doubt in standing.doubts}
    failed = [each.failure for each in standings if each.state is JobState.FAILED]
    if all(verdicts[output].is_ok for output in plan.outputs):
        state = JobState.DONE
    elif len(failed) >= needed:
        state = JobState.FAILED
    else:
        state = JobState.RUNNING
    failure = failed[0] if state is JobState.FAILED else ""
    return Standing(state, verdicts, tuple(findings), failure, tuple(doubts))


def _verdict(plan: Plan, retries: int, needed: int, verdicts: list[Verdict], stage: str) -> Verdict:
    slices = {}
    for number in range(plan.slices):
        found = [each.slices[number] for each in verdicts if number in each.slices]
        agreed = _agreed(needed, found)
        if agreed is not None:
            slices[number] = agreed
    state = StageState.OK if len(slices) == plan.slices else StageState.OPEN
    return Verdict(stage, _run(retries, needed, verdicts), state, slices)


def _run(retries: int, needed: int, verdicts: list[Verdict]) -> Run:
    """The latest run that a liar alone cannot bring about."""
    asked = {verdict.run for verdict in verdicts if max(verdict.run) <= retries}
    return max(
        (
            run
            for run in asked
            if sum(verdict.is_ok or verdict.run >= run for verdict in verdicts) >= needed
        ),
        default=Run(),
    )


def _agreed(needed: int, found: list[Agreed]) -> Agreed | None:
    counts = Counter((each.digest, each.rows) for each in found)
    if not counts:
        return None
    (digest, rows), count = counts.most_common(1)[0]
    if count < needed:
        return None
    same = [each for each in found if (each.digest, each.rows) == (digest, rows)]
    holders = Counter(holder for each in same for holder in each.holders)
    # A copy is hashed by whoever reads it: one that a liar names costs a look.
    order = sorted(holders, key=lambda holder: (-holders[holder], holder.replica))
    return Agreed(digest, rows, tuple(_one_each(order)))


def _one_each(holders: list[Holder]) -> list[Holder]:
    found: dict[int, Holder] = {}
    for holder in holders:
        found.setdefault(holder.replica, holder)
    return list(found.values())
