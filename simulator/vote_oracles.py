"""What must hold where replicas are compared: no lie passes, liars are named, nothing stalls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from holdfast.pipeline.machine.tuples import Kind, Row, bucket_of
from simulator.diagram import StagePlan
from simulator.parties import ClientParty, Tap
from simulator.simulation import Simulation

AT_MOST_ONCE = ("vote-latest", "latest")


def may_skip_buckets(run: Simulation) -> bool:
    """Whether readers behind the gates may miss buckets, or see wrong ones that are told later."""
    return run.scenario.options.policy in (*AT_MOST_ONCE, "sample")


def is_beyond_repair(run: Simulation) -> bool:
    """Whether more replicas lie than can be outvoted, and go on lying: then all may stop."""
    return any(lie.kind == "together" for lie in run.scenario.liars.values())


def check_votes(run: Simulation, right: Mapping[str, Sequence[Row]], settled: int) -> Iterator[str]:
    """Oracle 8; by the end everybody has come as far as `settled`."""
    liars = set(run.scenario.liars)
    for name, lives in run.findings.items():
        accused = {each.replica for findings in lives for each in findings.accused}
        if not is_beyond_repair(run) and accused - liars:
            yield f"{name}: accuses {sorted(accused - liars)}, who are honest"
    yield from _check_named(run)
    yield from _check_sampled(run)
    if may_skip_buckets(run):
        for plan in run.scenario.plans:
            if plan.name != "s1":
                yield from _check_whole(run, plan, right, settled)


def _check_named(run: Simulation) -> Iterator[str]:
    """A liar that was always outvoted is named by everybody who votes."""
    if run.scenario.options.policy != "vote" or run.scenario.options.faults != "none":
        return
    for liar, lie in run.scenario.liars.items():
        if lie.kind != "alone" or lie.share < 0.3:
            continue
        for name, lives in run.findings.items():
            if not any(each.replica == liar for findings in lives for each in findings.accused):
                yield f"{name}: did not name {liar}, who lies"


def _check_sampled(run: Simulation) -> Iterator[str]:
    """One who lies about a sample is named by who drew it, whatever he takes for samples."""
    if run.scenario.options.policy != "sample" or run.scenario.options.faults != "none":
        return
    newest = run.scenario.until // run.scenario.size - NOT_YET_SAMPLED
    for liar, reader, bucket in sorted(run.told):
        if bucket >= newest or not _is_sample(run, reader, bucket):
            continue
        if all(each.replica != liar for lives in run.findings[reader] for each in lives.accused):
            yield f"{reader}: did not name {liar}, who lied about the sample {bucket}"
            return


def _is_sample(run: Simulation, reader: str, bucket: int) -> bool:
    """Whether it was drawn, in every life of the reader."""
    return all(is_sample(bucket) for is_sample in run.samples.get(reader, [lambda _: False]))


def _check_whole(
    run: Simulation, plan: StagePlan, right: Mapping[str, Sequence[Row]], settled: int
) -> Iterator[str]:
    """Every bucket that came through is right and whole; wrong ones are told of (`sample`)."""
    readers: list[tuple[str, str, ClientParty | Tap]] = [
        (name, output.stream, run.taps[name, output.stream])
        for name in run.scenario.replicas[plan.name]
        for output in plan.outputs
    ]
    for name, stream, tap in readers:
        if tap.position < settled and not is_beyond_repair(run):
            yield f"replica {name}, stream {stream}: stuck at {tap.position / 1e6:.3f} s"
        expected = _by_bucket(right[stream], run.scenario.size)
        found = _by_bucket(
            [row for _, each in tap.shown if each.kind is Kind.INSERT for row in each.rows],
            run.scenario.size,
        )
        told = _tainted(run, name)
        votes_on_all = run.scenario.options.policy != "sample"
        for bucket, rows in found.items():
            is_compared = votes_on_all or _is_sample(run, name, bucket)
            if is_compared and rows != expected.get(bucket) and bucket not in told:
                yield f"replica {name}, stream {stream}: bucket {bucket} is wrong"
                return


def _tainted(run: Simulation, name: str) -> set[int]:
    """Buckets that a sampling gate said may be wrong, or may yet: those since its last sample."""
    if run.scenario.options.policy != "sample":
        return set()
    told = {
        bucket
        for findings in run.findings[name]
        for each in findings.tainted
        for bucket in range(each.first, each.last + 1)
    }
    newest = run.scenario.until // run.scenario.size
    return told | set(range(newest - NOT_YET_SAMPLED, newest + 1))


NOT_YET_SAMPLED = 15


def _by_bucket(rows: Sequence[Row], size: int) -> dict[int, list[Row]]:
    return {
        bucket: list(group) for bucket, group in groupby(rows, lambda r: bucket_of(r.stime, size))
    }
