"""Whether a simulated job came to what it must come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.verify.machine import Kind, Mode
from simulator.verified.job import SILENCES, Job
from simulator.verified.world import JobWorld

ACCUSATIONS = {Kind.OUTVOTED, Kind.EQUIVOCATED, Kind.MISPLACED, Kind.SHARED_HOST}


@dataclass(frozen=True, slots=True)
class JobTrial:
    """What came of it; no `problems` if all is right."""

    world: JobWorld
    problems: tuple[str, ...]


def try_job(job: Job) -> JobTrial:
    world = JobWorld(job)
    world.run()
    return JobTrial(world, tuple(_problems(world)))


def _problems(world: JobWorld) -> Iterator[str]:
    job = world.job
    yield from (f"wrong: {each}" for each in world.wrong[:3])
    if world.is_endless:
        yield "endless: neither delivered nor failed"
    if world.delivered is not None:
        for stage in job.plan.outputs:
            if world.delivered[stage] != job.truth[stage]:
                yield f"wrong: stage {stage} was delivered with other rows than the clean run has"
    is_whole = job.rules.mode is Mode.NON_BLOCKING or job.all_to_all
    is_promised = job.is_within_as_whole if is_whole else job.is_within
    is_promised = is_promised and not job.is_spoiled
    if is_promised and world.delivered is None:
        yield f"failed, although the faults are within what it is for: {world.failure}"
    # A bad verifier may have others compute again, and nothing worse.
    is_first = is_promised and (job.all_to_all or not job.bad_verifiers)
    if is_first and (again := _computed_again(world)):
        yield f"computed again, although the faults are within what it is for: {again}"
    if world.delivered is None and not world.failure:
        yield "it has failed and does not say why"
    yield from _early_starts(world)
    yield from _false_accusations(world)
    for number, verifier in enumerate(world.verifiers):
        if world.replayed(number) != verifier.standing():
            yield f"verifier {number} is another when it is made anew from its journal"


def _computed_again(world: JobWorld) -> list[str]:
    """Stages in later runs, as the good verifiers say."""
    return [
        f"{stage} in run {verdict.run}"
        for number, verifier in enumerate(world.verifiers)
        if number not in world.job.bad_verifiers
        for stage, verdict in verifier.standing().verdicts.items()
        if verdict.run > (0, 0)
    ]


def _false_accusations(world: JobWorld) -> Iterator[str]:
    """Replicas that good verifiers accuse, or all of them together, and that have not lied."""
    guilty = {fault.replica for fault in world.job.faults if fault.kind not in SILENCES}
    accusations = set(ACCUSATIONS)
    if world.job.is_within_as_whole or not world.job.own_files:
        # More liars than that are believed when they call good copies broken.
        accusations.add(Kind.BROKEN_DATA)
    found = {
        f"verifier {number}": verifier.findings
        for number, verifier in enumerate(world.verifiers)
        if number not in world.job.bad_verifiers
    }
    if world.standing is not None:
        found["the coordinator"] = world.standing.findings
    for who, findings in found.items():
        for each in findings:
            if each.kind in accusations and each.replica not in guilty:
                yield f"{who} accuses replica {each.replica}: {each.text}"


def _early_starts(world: JobWorld) -> Iterator[str]:
    """Stages that began before their mode allows."""
    plan, mode = world.job.plan, world.job.rules.mode
    for trace in world.trace:
        for parent, slices in trace.step.inputs.items():
            if all(each.verified for each in slices) or mode is Mode.NON_BLOCKING:
                continue
            where = f"replica {trace.replica}, stage {trace.step.stage} at {trace.time:g}"
            if mode is Mode.BLOCKING:
                yield f"{where}: began before {parent} was verified"
            for grandparent in plan.parents(parent):
                if not trace.standing.verdicts[grandparent].is_ok:
                    yield f"{where}: began before {grandparent} was verified, which {parent} read"
