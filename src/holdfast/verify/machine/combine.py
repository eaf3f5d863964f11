"""Several verifiers of one job as one: what enough of them say.

Replicas report to all of them. More than half must say the same; of those within replicas, as many
as replicas must agree. Verifiers are in different runs at times, for instance if a replica told
them different things: a run is to be computed if enough of them ask for it or need nothing more.
One that lies is outvoted too: it alone accuses nobody, moves nobody, and names no copy to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from holdfast.verify.machine.plan import Plan
from holdfast.verify.machine.reports import (
    Agreed,
    Doubt,
    Finding,
    Holder,
    JobState,
    Kind,
    Run,
    StageState,
    Standing,
    Verdict,
)


def combine(
    plan: Plan, retries: int, heard: Sequence[Standing | None], needed: int | None = None
) -> Standing:
    """`heard`: what each verifier says; None for one that does not answer. `needed`: how many must
    say the same; more than half if it is not given. What does not fit the plan is no answer."""
    needed = needed or len(heard) // 2 + 1
    standings = [each for each in heard if each is not None and fits(plan, each)]
    if len(heard) == len(standings) == needed == 1:
        return standings[0]
    # So many do not all lie, if those who may lie are those who are not needed. Where one is
    # enough nobody lies.
    credible = min(needed, len(heard) - needed + 1)
    verdicts = {}
    for stage in plan.stages:
        found = [each.verdicts[stage] for each in standings]
        slices = _slices(plan, needed, credible, found)
        is_ok = StageState.OK if len(slices) == plan.slices else StageState.OPEN
        verdicts[stage] = Verdict(stage, _run(retries, needed, found), is_ok, slices)
    state, failure = _end(plan, needed, len(heard), standings, verdicts)
    findings = _findings(needed, standings)
    return Standing(state, verdicts, findings, failure, _doubts(standings, verdicts))


def fits(plan: Plan, standing: Standing) -> bool:
    """Whether a verifier of such a job can have said this."""
    return set(standing.verdicts) == set(plan.stages) and all(
        name == verdict.stage
        and all(
            0 <= number < plan.slices and agreed.holders
            for number, agreed in verdict.slices.items()
        )
        and verdict.is_ok == (len(verdict.slices) == plan.slices)
        for name, verdict in standing.verdicts.items()
    )


def _end(
    plan: Plan, needed: int, count: int, standings: list[Standing], verdicts: dict[str, Verdict]
) -> tuple[JobState, str]:
    """How the job stands, and why it has failed if it has."""
    if all(verdicts[output].is_ok for output in plan.outputs):
        return JobState.DONE, ""
    failures = [each.failure for each in standings if each.state is JobState.FAILED]
    if len(failures) >= needed:
        return JobState.FAILED, Counter(failures).most_common(1)[0][0]
    done = sum(each.state is JobState.DONE for each in standings)
    # Who says that it has failed says so for ever; who has not answered yet may turn the scale.
    is_running = len(failures) + done < len(standings)
    if is_running or max(len(failures), done) + count - len(standings) >= needed:
        return JobState.RUNNING, ""
    return JobState.FAILED, (
        f"{len(failures)} of {count} verifiers say that the job has failed and {done} that it is "
        f"done, and {needed} must say the same: {failures[0]}; submit it again, with an odd number "
        "of verifiers"
    )


def _findings(needed: int, standings: list[Standing]) -> tuple[Finding, ...]:
    """Those on which enough of them agree in substance: whose words they have is another's matter,
    as are the slices that each has seen first."""
    said: Counter[object] = Counter()
    for standing in standings:
        said.update({topic for finding in standing.findings for topic in _topics(finding)})
    found: dict[object, Finding] = {}
    for finding in (each for standing in standings for each in standing.findings):
        if said[_topic(finding)] >= needed:
            of = (_topic(finding), finding.run, finding.slice, finding.seq)
            named = (each for each in finding.dissenters if said[_topic(finding), each] >= needed)
            found.setdefault(of, replace(finding, dissenters=tuple(named)))
    return tuple(found.values())


def _topic(finding: Finding) -> object:
    # Where too few agreed, it matters when: those who differ are moved each time.
    run = None if finding.replica else finding.run
    # The text says whose file it is.
    text = finding.text if finding.kind is Kind.SPOILED_FILE else ""
    return finding.kind, finding.replica, finding.stage, run, text


def _topics(finding: Finding) -> list[object]:
    topic = _topic(finding)
    return [topic, *((topic, each) for each in finding.dissenters)]


def _doubts(standings: list[Standing], verdicts: dict[str, Verdict]) -> tuple[Doubt, ...]:
    """Of any of them, for it costs a look, but only of copies that may be read."""
    doubts = dict.fromkeys(doubt for standing in standings for doubt in standing.doubts)
    return tuple(doubt for doubt in doubts if _is_held(doubt, verdicts))


def _is_held(doubt: Doubt, verdicts: dict[str, Verdict]) -> bool:
    verdict = verdicts.get(doubt.stage)
    agreed = None if verdict is None else verdict.slices.get(doubt.slice)
    return agreed is not None and doubt.holder in agreed.holders


def _slices(plan: Plan, needed: int, credible: int, verdicts: list[Verdict]) -> dict[int, Agreed]:
    slices = {}
    for number in range(plan.slices):
        found = [each.slices[number] for each in verdicts if number in each.slices]
        agreed = _agreed(needed, credible, found)
        if agreed is not None:
            slices[number] = agreed
    return slices


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


def _agreed(needed: int, credible: int, found: list[Agreed]) -> Agreed | None:
    counts = Counter((each.digest, each.rows) for each in found)
    if not counts:
        return None
    (digest, rows), count = counts.most_common(1)[0]
    if count < needed:
        return None
    same = [each for each in found if (each.digest, each.rows) == (digest, rows)]
    holders = Counter(holder for each in same for holder in each.holders)
    order = sorted(holders, key=lambda holder: (-holders[holder], holder.replica))
    named = _one_each([holder for holder in order if holders[holder] >= credible])
    return Agreed(digest, rows, tuple(named)) if named else None


def _one_each(holders: list[Holder]) -> list[Holder]:
    found: dict[int, Holder] = {}
    for holder in holders:
        found.setdefault(holder.replica, holder)
    return list(found.values())
