from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.verify.machine import (
    Doubt,
    Holder,
    JobState,
    Kind,
    Plan,
    Run,
    Standing,
    Verifier,
    combine,
)
from holdfast.verify.machine.combine import fits
from tests.verify.machine.reports import RUN1, basis, tell, verifier

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


def test_one_verifier_alone_accuses_nobody_but_has_somebody_look() -> None:
    judges = [verifier(plan=PLAN) for _ in range(3)]
    for judge, words in zip(judges, ("yxxx", "xyxx", "xyxx"), strict=True):
        tell(judge, "a", words)
    judges[0].broken("a", 0, 3, 4, 0.0)
    found = combine(PLAN, 3, [judge.standing() for judge in judges])
    assert [(each.kind, each.replica) for each in found.findings] == [(Kind.OUTVOTED, 2)]
    assert [each.holder.replica for each in found.doubts] == [3]


def test_one_verifier_alone_moves_nobody() -> None:
    judges = [verifier(plan=PLAN) for _ in range(3)]
    for judge in judges:
        tell(judge, "a", "xxyz")
    told = [judge.standing() for judge in judges]
    lie = replace(told[0].findings[0], dissenters=(1, 2, 99))
    found = combine(PLAN, 3, [replace(told[0], findings=(lie,)), *told[1:]])
    (finding,) = found.findings
    assert finding.kind is Kind.NO_QUORUM
    assert set(finding.dissenters) <= {3, 4}
    calm = replace(told[0], findings=())
    assert combine(PLAN, 3, [told[0], calm, calm]).findings == ()


def test_a_copy_that_one_verifier_alone_names_is_not_read() -> None:
    good = standing("x")
    verdict = good.verdicts["a"]
    forged = Holder(99, "nowhere", "../x")
    agreed = replace(verdict.slices[0], holders=(forged, *verdict.slices[0].holders))
    verdicts = {**good.verdicts, "a": replace(verdict, slices={0: agreed})}
    liar = replace(good, verdicts=verdicts, doubts=(Doubt("a", 0, forged), Doubt("z", 7, forged)))
    found = combine(PLAN, 3, [liar, good, good])
    assert found.verdicts == good.verdicts
    assert found.doubts == ()


def test_where_one_verifier_is_enough_its_copies_are() -> None:
    """Each replica of a pair has one, which does not answer if its replica has crashed."""
    done = standing("x", "v")
    assert combine(PLAN, 3, [None, done], 1).verdicts == done.verdicts


def _without_a_stage(good: Standing) -> Standing:
    return replace(good, verdicts={"a": good.verdicts["a"]})


def _under_another_name(good: Standing) -> Standing:
    return replace(good, verdicts={"a": good.verdicts["a"], "b": good.verdicts["a"]})


def _with_a_slice_too_many(good: Standing) -> Standing:
    verdict = good.verdicts["a"]
    slices = {**verdict.slices, 1: verdict.slices[0]}
    return replace(good, verdicts={**good.verdicts, "a": replace(verdict, slices=slices)})


def _without_holders(good: Standing) -> Standing:
    verdict = good.verdicts["a"]
    slices = {0: replace(verdict.slices[0], holders=())}
    return replace(good, verdicts={**good.verdicts, "a": replace(verdict, slices=slices)})


def _ok_without_slices(good: Standing) -> Standing:
    verdict = replace(good.verdicts["a"], slices={})
    return replace(good, verdicts={**good.verdicts, "a": verdict})


@pytest.mark.parametrize(
    "spoil",
    [
        _without_a_stage,
        _under_another_name,
        _with_a_slice_too_many,
        _without_holders,
        _ok_without_slices,
    ],
)
def test_what_no_verifier_of_this_job_says_is_no_answer(
    spoil: Callable[[Standing], Standing],
) -> None:
    good = standing("x")
    assert fits(PLAN, good)
    assert not fits(PLAN, spoil(good))
    assert combine(PLAN, 3, [spoil(good), good, good]) == combine(PLAN, 3, [None, good, good])


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("DF", JobState.FAILED),
        ("DDFF", JobState.FAILED),
        ("DF-", JobState.RUNNING),
        ("DFR", JobState.RUNNING),
        ("DDF", JobState.DONE),
        ("DFF", JobState.FAILED),
        ("DR", JobState.RUNNING),
    ],
)
def test_verifiers_that_come_to_different_ends(ends: str, expected: JobState) -> None:
    words = {
        "D": standing("x", "v"),
        "F": replace(standing(), state=JobState.FAILED, failure="too few"),
        "R": standing("x"),
        "-": None,
    }
    found = combine(PLAN, 3, [words[end] for end in ends])
    assert found.state is expected
    assert ("too few" in found.failure) == (expected is JobState.FAILED)


def test_of_verifiers_within_replicas_as_many_as_replicas_must_agree() -> None:
    heard = [standing("x"), standing("x"), standing("y"), standing("y")]
    assert word(combine(PLAN, 3, heard, 3), "a") is None
    assert word(combine(PLAN, 3, [*heard[:3], standing("x")], 3), "a") == "x"
