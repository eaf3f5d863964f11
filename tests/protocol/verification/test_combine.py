from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.protocol.verification import (
    JobState,
    Plan,
    Run,
    Standing,
    Verifier,
    combine,
)
from tests.protocol.verification.reports import RUN1, basis, tell, verifier

PLAN = Plan({"a": (), "b": ("a",)}, slices=1)


def standing(a: str = "", b: str = "", run: Run = RUN1) -> Standing:
    """Of a verifier that has agreed on these words."""
    judge: Verifier = verifier(plan=PLAN)
    tell(judge, "a", 3 * a)
    tell(judge, "b", 3 * b, of=basis(a=a))
    found = judge.standing()
    verdicts = {
        name: verdict if verdict.is_ok else replace(verdict, run=run)
        for name, verdict in found.verdicts.items()
    }
    return replace(found, verdicts=verdicts)


def word(found: Standing, stage: str) -> str | None:
    agreed = found.verdicts[stage].slices.get(0)
    return None if agreed is None else agreed.digest.rstrip(b".").decode()


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        (["x"], "x"),
        (["x", "x", "y"], "x"),
        (["x", "y", "z"], None),
        (["x", "", ""], None),
        (["x", "x", ""], "x"),
        (["x", None, "x"], "x"),
        (["x", None, None], None),
        (["x", "x", "y", "y"], None),
    ],
)
def test_more_than_half_must_say_the_same(heard: list[str | None], expected: str | None) -> None:
    found = combine(PLAN, 3, [None if each is None else standing(each) for each in heard])
    assert word(found, "a") == expected
    assert found.verdicts["a"].is_ok == (expected is not None)


def test_a_job_is_done_when_its_outputs_are() -> None:
    done = standing("x", "v")
    assert combine(PLAN, 3, [done, done, None]).state is JobState.DONE
    assert combine(PLAN, 3, [done, standing("x"), None]).state is JobState.RUNNING
    wrong = replace(done, verdicts=standing("y", "w").verdicts)
    assert combine(PLAN, 3, [done, wrong, None]).state is JobState.RUNNING


def test_a_job_has_failed_when_more_than_half_say_so() -> None:
    failed = replace(standing(), state=JobState.FAILED, failure="too few")
    assert combine(PLAN, 3, [failed, standing(), standing()]).state is JobState.RUNNING
    found = combine(PLAN, 3, [failed, failed, standing()])
    assert (found.state, found.failure) == (JobState.FAILED, "too few")


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(0, 0), (0, 0), (0, 0)], (0, 0)),
        ([(0, 3), (0, 0), (0, 0)], (0, 0)),
        ([(0, 1), (0, 1), (0, 0)], (0, 1)),
        ([(0, 3), (0, 1), (0, 0)], (0, 1)),
        ([(1, 0), (1, 0), (0, 3)], (1, 0)),
        ([(0, 9), (0, 9), (0, 0)], (0, 0)),
        (["ok", (0, 1), None], (0, 1)),
        (["ok", (0, 1), (0, 0)], (0, 1)),
    ],
)
def test_a_liar_alone_begins_no_run(
    runs: list[tuple[int, int] | str | None], expected: tuple[int, int]
) -> None:
    heard = [
        None if run is None else standing("x") if run == "ok" else standing(run=Run(*run))
        for run in runs
    ]
    assert combine(PLAN, 3, heard).verdicts["a"].run == expected


def test_holders_are_those_that_most_name_first() -> None:
    judge = verifier(plan=PLAN)
    tell(judge, "a", "xxx")
    other = verifier(plan=PLAN)
    tell(other, "a", ".xxx")
    found = combine(PLAN, 3, [judge.standing(), other.standing()])
    holders = [each.replica for each in found.verdicts["a"].slices[0].holders]
    assert holders == [2, 3, 1, 4]


def test_findings_and_doubts_are_those_of_all() -> None:
    judges = [verifier(plan=PLAN) for _ in range(2)]
    for judge, words in zip(judges, ("yxxx", "xyxx"), strict=True):
        tell(judge, "a", words)
        judge.broken("a", 0, 3, 4, 0.0)
    found = combine(PLAN, 3, [judge.standing() for judge in judges])
    assert [each.replica for each in found.findings] == [1, 2]
    assert [each.holder.replica for each in found.doubts] == [3]


def test_of_verifiers_within_replicas_as_many_as_replicas_must_agree() -> None:
    heard = [standing("x"), standing("x"), standing("y"), standing("y")]
    assert word(combine(PLAN, 3, heard, 3), "a") is None
    assert word(combine(PLAN, 3, [*heard[:3], standing("x")], 3), "a") == "x"
