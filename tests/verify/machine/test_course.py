from __future__ import annotations

import pytest

from holdfast.verify.machine import (
    Compute,
    Computed,
    JobState,
    Mode,
    Plan,
    Verifier,
    is_stale,
    next_steps,
)
from tests.verify.machine.reports import (
    CHAIN,
    RUN1,
    basis,
    computed,
    report,
    tell,
    verifier,
)

JOIN = Plan({"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}, slices=1)


def steps(judge: Verifier, mode: Mode, replica: int, **done: Computed) -> list[Compute]:
    return next_steps(judge.plan, mode, replica, judge.standing(), done)


def names(found: list[Compute]) -> str:
    return "".join(step.stage for step in found)


A1, B1, C1 = computed(1, "x"), computed(1, "v", a="x"), computed(1, "w", b="v")


@pytest.mark.parametrize(
    ("mode", "verified", "done", "expected"),
    [
        ("blocking", "", "", "a"),
        ("blocking", "", "a", ""),
        ("blocking", "a", "a", "b"),
        ("blocking", "a", "", "b"),
        ("blocking", "ab", "ab", "c"),
        ("non-blocking", "", "", "a"),
        ("non-blocking", "", "a", "b"),
        ("non-blocking", "", "ab", "c"),
        ("non-blocking", "", "abc", ""),
        ("hybrid", "", "", "a"),
        ("hybrid", "", "a", "b"),
        ("hybrid", "", "ab", ""),
        ("hybrid", "a", "ab", "c"),
        ("hybrid", "a", "a", "b"),
        ("hybrid", "ab", "ab", "c"),
        ("hybrid", "ab", "", "c"),
        ("hybrid", "abc", "abc", ""),
    ],
)
def test_when_a_stage_of_a_chain_starts(mode: str, verified: str, done: str, expected: str) -> None:
    judge = verifier(mode=Mode(mode))
    for stage, word, of in (("a", "x", {}), ("b", "v", {"a": "x"}), ("c", "w", {"b": "v"})):
        if stage in verified:
            tell(judge, stage, 3 * word, of=basis(**of))
    own = {stage: each for stage, each in zip("abc", (A1, B1, C1), strict=True) if stage in done}
    assert names(steps(judge, Mode(mode), 1, **own)) == expected


@pytest.mark.parametrize(
    ("verified", "done", "expected"),
    [
        ("", "", "ab"),
        ("", "ab", "c"),
        ("", "a", "b"),
        ("a", "ab", "c"),
        ("", "abc", ""),
        ("a", "abc", ""),
        ("ab", "abc", "d"),
    ],
)
def test_when_a_join_starts_in_hybrid_mode(verified: str, done: str, expected: str) -> None:
    judge = verifier(plan=JOIN)
    for stage in verified:
        tell(judge, stage, "xxx")
    own = {
        stage: each
        for stage, each in zip("abc", (A1, A1, computed(1, "v", a="x", b="x")), strict=True)
        if stage in done
    }
    assert names(steps(judge, Mode.HYBRID, 1, **own)) == expected


def test_what_is_verified_is_read_from_ones_own_copy_if_it_is_good() -> None:
    judge = verifier()
    tell(judge, "a", "xxx")
    (step,) = steps(judge, Mode.BLOCKING, 2, a=computed(2, "x"))
    (given,) = step.inputs["a"]
    assert given.verified
    assert [holder.replica for holder in given.holders] == [2, 3, 1]


def test_whoever_was_outvoted_is_redirected() -> None:
    judge = verifier()
    tell(judge, "a", "yxxx")
    (step,) = steps(judge, Mode.BLOCKING, 1, a=computed(1, "y"))
    (given,) = step.inputs["a"]
    assert {holder.replica for holder in given.holders} == {2, 3, 4}
    assert step.basis == basis(a="x")


def test_those_without_a_copy_spread_over_those_with_one() -> None:
    judge = verifier()
    tell(judge, "a", "yxxx")
    first = {
        replica: steps(judge, Mode.BLOCKING, replica)[0].inputs["a"][0].holders[0].replica
        for replica in (1, 5, 9)
    }
    assert first[1] == 3
    assert set(first.values()) <= {2, 3, 4}


def test_an_unverified_parent_is_read_from_ones_own_slices() -> None:
    (step,) = steps(verifier(), Mode.HYBRID, 1, a=A1)
    (given,) = step.inputs["a"]
    assert not given.verified
    assert [holder.path for holder in given.holders] == ["own/1/x"]


def test_slices_that_are_agreed_upon_are_taken_before_all_of_a_parent_is() -> None:
    judge = verifier(plan=Plan({"a": (), "b": ("a",)}, slices=2))
    tell(judge, "a", "yxxx")
    (mine,) = computed(1, "y").slices
    done = Computed(A1.run, {}, (mine, mine))
    (step,) = steps(judge, Mode.HYBRID, 1, a=done)
    assert [given.verified for given in step.inputs["a"]] == [True, False]


@pytest.mark.parametrize(
    ("mode", "words", "expected"),
    [
        ("hybrid", "", False),
        ("hybrid", "xxx", False),
        ("hybrid", "yyy", True),
        ("hybrid", "yyxx", True),
        ("non-blocking", "yyy", False),
        ("non-blocking", "yyxx", True),
    ],
)
def test_what_is_computed_from_something_outvoted_need_not_be(
    mode: str, words: str, expected: bool
) -> None:
    """Nor what is computed when all is to be computed again, for want of a quorum."""
    judge = verifier(mode=Mode(mode))
    own = {"a": computed(4, "x")}
    (step,) = steps(judge, Mode(mode), 4, **own)
    assert step.stage == "b"
    tell(judge, "a", words)
    if mode == "non-blocking" and len(words) == 4:
        tell(judge, "b", "vvww", of=basis(a="x"))
        tell(judge, "c", "vvww", of=basis(b="v"))
    assert is_stale(CHAIN, Mode(mode), 4, judge.standing(), own, step) is expected


def test_what_was_agreed_upon_meanwhile_is_computed_to_its_end() -> None:
    judge = verifier()
    own = {"a": computed(4, "x")}
    (step,) = steps(judge, Mode.HYBRID, 4, **own)
    tell(judge, "a", "xxx")
    tell(judge, "b", "vvv", of=basis(a="x"))
    assert judge.verdict("b").is_ok
    assert not is_stale(CHAIN, Mode.HYBRID, 4, judge.standing(), own, step)


def test_what_was_computed_from_an_outvoted_slice_is_computed_again() -> None:
    judge = verifier()
    tell(judge, "a", "yxxx")
    tainted = computed(1, "z", a="y")
    (step,) = steps(judge, Mode.HYBRID, 1, a=computed(1, "y"), b=tainted)
    assert (step.stage, step.basis, step.run) == ("b", basis(a="x"), (0, 0))
    found = steps(judge, Mode.NON_BLOCKING, 1, a=computed(1, "y"), b=tainted)
    assert names(found) == "c", "where nothing blocks, corruption spreads"


def test_a_new_run_is_computed_and_what_it_gives_is_compared_with_what_was_used() -> None:
    judge = verifier()
    tell(judge, "a", "xxyy")
    assert names(steps(judge, Mode.HYBRID, 1, a=A1, b=B1)) == "a"
    same = computed(1, "x", run=RUN1)
    assert names(steps(judge, Mode.HYBRID, 1, a=same, b=B1)) == ""
    other = computed(1, "y", run=RUN1)
    assert names(steps(judge, Mode.HYBRID, 1, a=other, b=B1)) == "b"


def test_nothing_is_left_to_do_when_the_job_has_ended() -> None:
    judge = verifier(plan=Plan({"a": ()}, slices=1))
    tell(judge, "a", "xxx")
    assert judge.state is JobState.DONE
    assert steps(judge, Mode.HYBRID, 4) == []
    failed = verifier(retries=0)
    tell(failed, "a", "xxyy")
    assert failed.state is JobState.FAILED
    assert steps(failed, Mode.HYBRID, 1) == []


def test_what_is_agreed_upon_is_not_computed_any_more() -> None:
    judge = verifier(plan=CHAIN)
    tell(judge, "a", "xxx")
    tell(judge, "b", "vvv", of=basis(a="x"))
    assert names(steps(judge, Mode.BLOCKING, 4)) == "c"


def test_copies_are_made_again_only_if_somebody_waits_for_them() -> None:
    judge = verifier(plan=Plan({"a": (), "b": ("a",), "c": ("a",)}, slices=1))
    tell(judge, "a", "xxx")
    tell(judge, "b", "vvv", of=basis(a="x"))
    for maker in (1, 2, 3):
        judge.broken("a", 0, maker, maker, 0.0)
    assert names(steps(judge, Mode.BLOCKING, 4)) == "a"
    judge.report(report("a", 4, "x", run=RUN1), 0.0)
    assert names(steps(judge, Mode.BLOCKING, 4)) == "c"
