"""The verifier by tables; what no table thinks of is in tests/simulator/test_verified.py."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import permutations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import (
    COORDINATOR,
    JobState,
    Kind,
    Mode,
    Model,
    Plan,
    Quorum,
    Report,
    Rules,
    Run,
    Verifier,
)
from holdfast.verify.machine.ballot import MAX_WORDS
from holdfast.verify.machine.reports import MAX_FINDINGS
from tests.verify.machine.reports import (
    FOUR,
    PAIR,
    ROOT,
    RUN1,
    SEVEN,
    agreed,
    basis,
    digest,
    report,
    tell,
    verifier,
)

ONE = Plan({"a": ()}, slices=1)


def kinds(of: Verifier) -> list[tuple[Kind, int]]:
    return [(finding.kind, finding.replica) for finding in of.findings]


@pytest.mark.parametrize(
    ("quorum", "words", "result"),
    [
        (FOUR, "x", None),
        (FOUR, "xx", None),
        (FOUR, "xxx", "x"),
        (FOUR, "xxxy", "x"),
        (FOUR, "yxxx", "x"),
        (FOUR, "xxy", None),
        (SEVEN, "xxxx", None),
        (SEVEN, "xxxx..y", None),
        (SEVEN, "xxxxx", "x"),
        (SEVEN, "yzxxxxx", "x"),
        (PAIR, "x", "x"),
        (PAIR, ".x", "x"),
        (PAIR, "xx", "x"),
    ],
)
def test_enough_must_agree(quorum: Quorum, words: str, result: str | None) -> None:
    judge = verifier(quorum, ONE)
    tell(judge, "a", words)
    assert agreed(judge, "a") == result
    assert judge.verdict("a").run == Run()
    assert (judge.state is JobState.DONE) == (result is not None)


@pytest.mark.parametrize(
    ("quorum", "words"),
    [(FOUR, "xxyy"), (FOUR, "xxyz"), (SEVEN, "xxxxyyy"), (SEVEN, "xxxxyyz")],
)
@pytest.mark.parametrize("mode", Mode)
def test_too_few_agree_and_all_is_computed_again(quorum: Quorum, words: str, mode: Mode) -> None:
    judge = verifier(quorum, ONE, mode)
    tell(judge, "a", words)
    again = Run(1, 0) if mode is Mode.NON_BLOCKING else Run(0, 1)
    assert judge.verdict("a").run == again
    assert agreed(judge, "a") is None
    assert kinds(judge) == [(Kind.NO_QUORUM, 0)]
    tell(judge, "a", words, run=Run())
    assert agreed(judge, "a") is None, "reports of an earlier run count for nothing"
    tell(judge, "a", "x" * quorum.replicas, run=again)
    assert agreed(judge, "a") == "x"


def test_who_is_outvoted_is_named_early_or_late() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "yxxx")
    assert kinds(judge) == [(Kind.OUTVOTED, 1)]
    finding = judge.findings[0]
    assert (finding.host, finding.stage, finding.slice) == ("host1", "a", 0)
    assert "replicas 2, 3 and 4" in finding.text
    late = verifier(plan=ONE)
    tell(late, "a", "xxxy")
    assert kinds(late) == [(Kind.OUTVOTED, 4)]


def test_a_wrong_count_of_rows_is_outvoted_too() -> None:
    judge = verifier(plan=ONE)
    judge.report(report("a", 4, "x", rows=2), 0.0)
    tell(judge, "a", "xxx")
    assert kinds(judge) == [(Kind.OUTVOTED, 4)]
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [1, 2, 3]


def test_late_votes_for_what_was_agreed_upon_make_holders() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxxx")
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [1, 2, 3, 4]


def test_the_same_again_is_harmless() -> None:
    judge = verifier(plan=ONE)
    for _ in range(3):
        judge.report(report("a", 1, "x"), 0.0)
    tell(judge, "a", "xx")
    assert agreed(judge, "a") is None
    assert judge.findings == ()


@pytest.mark.parametrize("words", list(permutations(["1x", "2x", "2y", "3x"])))
def test_who_says_two_things_is_named_and_decides_nothing_by_it(words: tuple[str, ...]) -> None:
    judge = verifier(plan=ONE)
    for replica, word in words:
        judge.report(report("a", int(replica), word), 0.0)
    assert kinds(judge) == [(Kind.EQUIVOCATED, 2)]
    assert agreed(judge, "a") == "x", "whatever was heard first"
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [1, 3]


def test_who_contradicts_itself_late_holds_nothing_any_more() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxx")
    judge.report(report("a", 2, "y"), 0.0)
    assert agreed(judge, "a") == "x"
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [1, 3]


def test_only_reports_from_agreed_inputs_count() -> None:
    judge = verifier()
    tell(judge, "b", "zzz", of=basis(a="y"))
    tell(judge, "a", "xxx")
    assert agreed(judge, "b") is None, "what was computed from something else is no vote"
    tell(judge, "b", "vvv", of=basis(a="x"))
    assert agreed(judge, "b") == "v"
    assert judge.findings == (), "nor does it contradict what is computed again"


def test_reports_that_came_before_their_parents_were_agreed_upon_count_then() -> None:
    judge = verifier()
    tell(judge, "c", "www", of=basis(b="v"))
    tell(judge, "b", "vvv", of=basis(a="x"))
    assert agreed(judge, "b") is None
    tell(judge, "a", "xxx")
    assert [agreed(judge, stage) for stage in "abc"] == ["x", "v", "w"]
    assert judge.state is JobState.DONE


def test_spread_of_corruption_is_no_fault_of_the_next_stage() -> None:
    """Replica 1 is wrong in `a`, replica 2 in `b`: within what four are for, stage by stage."""
    judge = verifier()
    judge.report(report("b", 1, "z", of=basis(a="y")), 0.0)
    tell(judge, "a", "yxxx")
    tell(judge, "b", ".qvv", of=basis(a="x"))
    assert agreed(judge, "b") is None
    assert judge.verdict("b").run == Run(), "replica 1 may compute it again from good inputs"
    judge.report(report("b", 1, "v", of=basis(a="x")), 0.0)
    assert agreed(judge, "b") == "v"
    assert kinds(judge) == [(Kind.OUTVOTED, 1), (Kind.OUTVOTED, 2)]


def test_spread_of_corruption_begins_a_job_again_that_does_not_block() -> None:
    judge = verifier(mode=Mode.NON_BLOCKING)
    judge.report(report("b", 1, "z", of=basis(a="y")), 0.0)
    tell(judge, "a", "yxxx")
    tell(judge, "b", ".qvv", of=basis(a="x"))
    assert {judge.verdict(stage).run for stage in "abc"} == {Run(1, 0)}
    assert not any(judge.verdict(stage).slices for stage in "abc")


def test_a_stage_keeps_what_it_has_agreed_upon_when_it_is_computed_again() -> None:
    judge = verifier(plan=Plan({"a": ()}, slices=2))
    tell(judge, "a", "xxx")
    for replica, word in enumerate("yyzz", 1):
        judge.report(report("a", replica, word, slice=1), 0.0)
    assert judge.verdict("a").run == RUN1
    assert set(judge.verdict("a").slices) == {0}


def test_it_gives_up_in_the_end_and_names_who_disagreed() -> None:
    judge = verifier(plan=ONE, retries=1)
    tell(judge, "a", "xxyy")
    tell(judge, "a", "xxyz", run=RUN1)
    assert judge.state is JobState.FAILED
    assert "stage a: 3 of 4 replicas must agree" in judge.failure
    assert "replicas 1 and 2 agree on" in judge.failure
    assert "replica 3 says" in judge.failure
    assert "replica 4 says" in judge.failure
    tell(judge, "a", "xxxx", run=RUN1)
    assert judge.state is JobState.FAILED


def test_the_crash_model_cannot_tell_who_is_right() -> None:
    judge = verifier(PAIR)
    tell(judge, "a", "xy")
    assert judge.state is JobState.FAILED
    assert "replicas 1 and 2 have different results" in judge.failure
    assert "use byzantine" in judge.failure
    second = verifier(PAIR)
    second.report(report("a", 1, "x"), 0.0)
    second.report(report("a", 1, "y"), 0.0)
    assert second.state is JobState.FAILED


def test_nobody_waits_for_ever_for_a_silent_replica() -> None:
    judge = verifier(plan=ONE, patience=10.0)
    tell(judge, "a", "xxy.", now=5.0)
    assert judge.next_wake == 15.0
    judge.wake(14.0)
    assert judge.verdict("a").run == Run()
    judge.wake(15.0)
    assert judge.verdict("a").run == RUN1
    assert (Kind.MISSING, 4) in kinds(judge)
    assert judge.next_wake is None


def test_nobody_waits_for_a_replica_that_is_gone() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxy.")
    judge.gone(4, 1.0)
    assert judge.verdict("a").run == RUN1
    assert kinds(judge)[0] == (Kind.MISSING, 4)


def test_what_a_replica_said_before_it_was_gone_counts() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xx")
    judge.gone(1, 1.0)
    tell(judge, "a", "..x")
    assert agreed(judge, "a") == "x"


def test_too_few_left_may_come_back_for_a_while() -> None:
    judge = verifier(plan=ONE, patience=10.0)
    judge.gone(1, 1.0)
    judge.gone(2, 2.0)
    assert (judge.state, judge.next_wake) == (JobState.RUNNING, 12.0)
    judge.back(2, (), 11.0)
    judge.wake(12.0)
    assert judge.state is JobState.RUNNING
    judge.gone(2, 13.0)
    judge.wake(23.0)
    assert judge.state is JobState.FAILED
    assert "2 of 4 replicas are left" in judge.failure
    assert "replicas 1 and 2 ended" in judge.failure


def test_a_job_of_which_nothing_is_heard_has_failed() -> None:
    judge = verifier(limit=100.0)
    judge.wake(50.0)
    judge.start(1, "host1", 60.0)
    assert judge.next_wake == 160.0
    judge.wake(160.0)
    assert judge.state is JobState.FAILED
    assert "nothing was agreed upon for 100 seconds" in judge.failure


def test_a_few_who_talk_on_do_not_hide_that_the_others_are_mute() -> None:
    judge = verifier(plan=Plan({"a": ()}, slices=8), limit=100.0)
    judge.wake(0.0)
    for replica in (1, 2):
        judge.start(replica, f"host{replica}", 0.0)
    for number in range(8):
        now = 50.0 + number
        judge.start(1, f"host{number}", now)
        judge.report(report("a", 1, "x", slice=number), now)
        judge.report(report("a", 1, "x", slice=number, seq=number), now)
        judge.report(report("a", 1, "y", slice=number, of=digest("another")), now)
        judge.broken("a", number, 2, 1, now)
    assert judge.next_wake == 100.0
    judge.wake(100.0)
    assert judge.state is JobState.FAILED


def test_what_is_agreed_upon_begun_again_or_started_is_news() -> None:
    judge = verifier(plan=Plan({"a": ()}, slices=2), limit=100.0)
    judge.wake(0.0)
    tell(judge, "a", "xxx", now=10.0)
    assert judge.next_wake == 110.0
    for replica, word in enumerate("yyzz", 1):
        judge.report(report("a", replica, word, slice=1), 20.0)
    assert (judge.verdict("a").run, judge.next_wake) == (RUN1, 120.0)
    judge.back(3, (), 30.0)
    assert judge.next_wake == 130.0
    judge.start(1, "host1", 40.0)
    assert judge.next_wake == 140.0


def test_each_call_says_whether_it_is_to_be_remembered() -> None:
    judge = verifier(plan=ONE)
    assert judge.start(1, "host1", 0.0)
    assert not judge.start(1, "host1", 1.0)
    assert judge.gone(4, 1.0)
    assert not judge.gone(4, 2.0)
    assert judge.back(4, (), 3.0)
    assert judge.report(report("a", 1, "x"), 4.0)
    version = judge.version
    assert not judge.report(replace(report("a", 1, "x"), path="job/1/elsewhere", host="other"), 5.0)
    assert not judge.broken("a", 0, 1, 2, 6.0), "it is no holder yet"
    assert judge.version == version
    tell(judge, "a", ".xx", now=7.0)
    assert judge.broken("a", 0, 1, 2, 8.0)
    assert not judge.broken("a", 0, 1, 2, 9.0)


def test_findings_of_one_replica_have_an_end() -> None:
    """Else a liar has everybody told of thousands of them, again and again."""
    pools = {number: frozenset({f"host{number}"}) for number in FOUR.numbers}
    judge = verifier(plan=Plan({"a": ()}, slices=1), pools=pools)
    turns = set()
    for seq in range(1000):
        judge.report(report("a", 1, "x", seq=seq, host=f"there{seq}"), 0.0)
        turns.add(judge.turned)
    assert set(kinds(judge)) == {(Kind.MISPLACED, 1)}
    assert len(judge.findings) == MAX_FINDINGS + 1
    assert "more often than is told here" in judge.findings[-1].text
    assert len(turns) == 1, "those who wait are told once"


def test_one_accuser_may_lie_two_do_not() -> None:
    judge = verifier(plan=ONE, own_files=True)
    tell(judge, "a", "xxx")
    judge.broken("a", 0, 1, 4, 0.0)
    judge.broken("a", 0, 1, 4, 0.0)
    assert judge.findings == ()
    (doubt,) = judge.standing().doubts
    assert (doubt.stage, doubt.slice, doubt.holder.replica) == ("a", 0, 1)
    judge.broken("a", 0, 1, 3, 0.0)
    assert judge.standing().doubts == ()
    assert kinds(judge) == [(Kind.BROKEN_DATA, 1)]
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [2, 3]


@pytest.mark.parametrize("accuser", [COORDINATOR, 2])
def test_the_coordinator_is_believed_and_so_is_the_maker(accuser: int) -> None:
    judge = verifier(plan=ONE, own_files=True)
    tell(judge, "a", "xxx")
    judge.broken("a", 0, 2, accuser, 0.0)
    assert kinds(judge) == [(Kind.BROKEN_DATA, 2)]


def test_nobody_is_named_for_a_file_that_others_can_write() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxx")
    judge.broken("a", 0, 2, COORDINATOR, 0.0)
    (finding,) = judge.findings
    assert (finding.kind, finding.replica, finding.dissenters) == (Kind.SPOILED_FILE, 0, ())
    assert finding.text == (
        "the file of replica 2 was changed or was wrong; storage shared: author not known"
    )
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [1, 3]


def test_a_new_copy_is_judged_anew() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxx")
    judge.broken("a", 0, 4, 1, 0.0)
    judge.report(report("a", 4, "x"), 0.0)
    assert judge.standing().doubts == (), "nobody held it when it was accused"
    for maker in (1, 2, 3, 4):
        judge.broken("a", 0, maker, COORDINATOR, 0.0)
    assert not judge.verdict("a").slices
    judge.report(report("a", 1, "x", run=RUN1), 0.0)
    assert set(judge.verdict("a").slices) == {0}
    judge.broken("a", 0, 1, COORDINATOR, 0.0)
    assert judge.verdict("a").run == Run(0, 2)


def test_when_all_copies_are_lost_any_new_one_will_do() -> None:
    judge = verifier()
    tell(judge, "a", "xxx")
    tell(judge, "b", "vv", of=basis(a="x"))
    for maker in (1, 2, 3):
        judge.broken("a", 0, maker, COORDINATOR, 0.0)
    assert not judge.verdict("a").is_ok
    assert judge.verdict("a").run == RUN1
    judge.report(report("a", 4, "y", run=RUN1), 0.0)
    assert not judge.verdict("a").is_ok
    judge.report(report("a", 3, "x", run=RUN1), 0.0)
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [3]
    judge.report(report("b", 3, "v", of=basis(a="x")), 0.0)
    assert agreed(judge, "b") == "v", "what was computed from the lost copies still counts"


def test_lost_copies_of_an_output_undo_that_the_job_is_done() -> None:
    judge = verifier(plan=ONE)
    tell(judge, "a", "xxx")
    assert judge.state is JobState.DONE
    for maker in (1, 2, 3):
        judge.broken("a", 0, maker, COORDINATOR, 0.0)
    assert judge.state is JobState.RUNNING
    judge.report(report("a", 1, "x", run=RUN1), 0.0)
    assert judge.state is JobState.DONE


def test_lost_copies_that_nobody_wants_any_more_stay_lost() -> None:
    judge = verifier(plan=Plan({"a": (), "b": ("a",)}, slices=1))
    tell(judge, "a", "xxx")
    tell(judge, "b", "vvv", of=basis(a="x"))
    for maker in (1, 2, 3):
        judge.broken("a", 0, maker, COORDINATOR, 0.0)
    assert judge.state is JobState.DONE
    assert judge.verdict("a").run == Run()
    for maker in (1, 2, 3):
        judge.broken("b", 0, maker, COORDINATOR, 0.0)
    assert judge.verdict("b").run == RUN1
    assert judge.verdict("a").run == RUN1, "now they are wanted again"


def test_a_replica_on_anothers_host_counts_for_nothing() -> None:
    pools = {number: frozenset({f"host{number}"}) for number in FOUR.numbers}
    judge = verifier(plan=ONE, pools=pools)
    judge.report(report("a", 4, "x", host="host1"), 0.0)
    tell(judge, "a", "xx")
    assert agreed(judge, "a") is None
    assert kinds(judge) == [(Kind.MISPLACED, 4)]
    tell(judge, "a", "..x")
    assert agreed(judge, "a") == "x"


def test_who_is_moved_may_report_from_there_and_nobody_else() -> None:
    """A liar that claims a spare host first does not have the replica blamed that is moved to it,
    nor the job ended."""
    pools = {number: frozenset({f"host{number}"}) for number in FOUR.numbers}
    judge = verifier(plan=Plan({"a": (), "b": ("a",)}, slices=1), pools=pools)
    judge.report(report("b", 1, "v", of=basis(a="x"), host="spare"), 0.0)
    judge.gone(2, 1.0)
    judge.back(2, ("host2", "spare"), 2.0)
    tell(judge, "a", "..xx")
    judge.report(report("a", 2, "x", host="spare"), 3.0)
    judge.report(report("b", 2, "v", of=basis(a="x"), host="spare"), 4.0)
    tell(judge, "b", "..vv", of=basis(a="x"))
    assert judge.state is JobState.DONE
    assert [each.replica for each in judge.verdict("b").slices[0].holders] == [2, 3, 4]
    assert kinds(judge) == [(Kind.MISPLACED, 1), (Kind.MISSING, 2)]


def test_a_broken_copy_is_not_read_again_when_others_votes_are_counted_anew() -> None:
    pools = {number: frozenset({f"host{number}"}) for number in FOUR.numbers}
    judge = verifier(plan=Plan({"a": (), "b": ("a",)}, slices=1), pools=pools)
    judge.report(report("a", 4, "x", host="spare"), 0.0)
    for replica in (1, 2, 3):
        judge.report(report("a", replica, "x"), 0.0)
    judge.broken("a", 0, 1, accuser=1, now=1.0)
    judge.back(4, ("host4", "spare"), 2.0)
    assert [each.replica for each in judge.verdict("a").slices[0].holders] == [2, 3, 4]


def test_what_came_before_the_word_on_a_move_counts_after_it() -> None:
    pools = {number: frozenset({f"host{number}"}) for number in FOUR.numbers}
    judge = verifier(plan=Plan({"a": ()}, slices=2), pools=pools)
    for number in (0, 1):
        judge.report(report("a", 2, "x", slice=number, host="spare"), 0.0)
    judge.report(report("a", 2, "x", seq=5, host="spare"), 0.0)
    for replica in (1, 3):
        judge.report(report("a", replica, "x"), 0.0)
        judge.report(report("a", replica, "x", seq=5), 0.0)
    for replica in (1, 3, 4):
        judge.report(report("a", replica, "x", slice=1), 0.0)
    assert set(judge.verdict("a").slices) == {1}
    assert judge.chunk("a", 0, 5) is None
    judge.back(2, ("host2", "spare"), 1.0)
    assert judge.state is JobState.DONE
    for found in judge.verdict("a").slices.values():
        assert 2 in [each.replica for each in found.holders]
    assert judge.chunk("a", 0, 5) is not None
    assert judge.findings == (), "it was where it should be"


@pytest.mark.parametrize(
    ("quorum", "words", "order"),
    [
        (FOUR, "xxyy", (1, 3, 2, 4)),
        (FOUR, "xyxy", (1, 2, 3, 4)),
        (FOUR, "xxyz", (3, 4)),
        (FOUR, "yxxz", (1, 4)),
        (FOUR, "wxy.", (1, 2, 3)),
        (SEVEN, "xxxxyyy", (5, 6, 7)),
        (SEVEN, "zxxyy..", (1, 2, 4, 3, 5)),
        (SEVEN, "zzxxxxy", (7, 1, 2)),
    ],
)
def test_who_should_try_elsewhere(quorum: Quorum, words: str, order: tuple[int, ...]) -> None:
    """If as many say one thing as another, it may be the liars who were heard first."""
    judge = verifier(quorum, ONE)
    tell(judge, "a", words)
    (finding,) = judge.findings
    assert finding.dissenters == order


def test_sharing_a_host_is_an_error_unless_it_is_allowed() -> None:
    judge = verifier(plan=ONE)
    judge.report(report("a", 1, "x"), 0.0)
    judge.report(report("a", 2, "x", host="host1"), 0.0)
    assert judge.state is JobState.FAILED
    assert "replica 2 ran on host1, where replica 1 ran stage a too" in judge.failure
    allowed = verifier(plan=Plan({"a": ()}, slices=8), shared_hosts=True)
    for number in range(8):
        for replica in (1, 2, 3):
            allowed.report(report("a", replica, "x", slice=number, host="host1"), 0.0)
    assert agreed(allowed, "a") == "x"
    assert kinds(allowed) == [(Kind.SHARED_HOST, 2), (Kind.SHARED_HOST, 3)]


def test_it_follows_other_verifiers_into_a_run_when_not_all_who_are_in_it_lie() -> None:
    judge = verifier(plan=ONE)
    judge.report(report("a", 1, "x", run=RUN1), 0.0)
    assert judge.verdict("a").run == Run()
    judge.report(report("a", 2, "x", run=RUN1), 0.0)
    assert judge.verdict("a").run == RUN1
    judge.report(report("a", 3, "x", run=RUN1), 0.0)
    assert agreed(judge, "a") == "x"
    epoch = verifier(mode=Mode.NON_BLOCKING)
    tell(epoch, "a", "xxx")
    tell(epoch, "b", "vv", of=basis(a="x"), run=Run(1))
    assert {epoch.verdict(stage).run for stage in "abc"} == {Run(1)}


def test_two_results_that_were_both_agreed_upon_end_the_job() -> None:
    judge = verifier(mode=Mode.NON_BLOCKING)
    tell(judge, "a", "xxx")
    tell(judge, "b", "vvww", of=basis(a="x"))
    assert judge.verdict("a").run == Run(1)
    tell(judge, "a", "yyy", run=Run(1))
    assert judge.state is JobState.FAILED
    assert "two different results were agreed upon" in judge.failure


def test_chunks_are_agreed_upon_one_by_one() -> None:
    judge = verifier(plan=ONE)
    for replica, word in enumerate("xyxx", 1):
        judge.report(report("a", replica, word, seq=7), 0.0)
    found = judge.chunk("a", 0, 7)
    assert found is not None
    assert (found.digest, [each.replica for each in found.holders]) == (digest("x"), [1, 3, 4])
    assert judge.chunk("a", 0, 8) is None
    assert agreed(judge, "a") is None, "chunks are not the slice"
    (finding,) = judge.findings
    assert (finding.kind, finding.replica, finding.slice, finding.seq) == (Kind.OUTVOTED, 2, 0, 7)
    assert "replicas 1, 3 and 4" in finding.text


def test_who_tells_a_wrong_chunk_late_is_named_too() -> None:
    judge = verifier(plan=ONE)
    for replica, word in enumerate("xxxy", 1):
        judge.report(report("a", replica, word, seq=7), 0.0)
    assert [(each.kind, each.replica, each.seq) for each in judge.findings] == [
        (Kind.OUTVOTED, 4, 7)
    ]
    judge.report(report("a", 4, "y", of=basis(a="z"), seq=7), 0.0)
    assert len(judge.findings) == 1, "from another input it may well be something else"
    pair = verifier(PAIR, plan=ONE)
    for replica, word in enumerate("xy", 1):
        pair.report(report("a", replica, word, seq=7), 0.0)
    assert "replicas 1 and 2 have different results" in pair.failure


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (report("z", 1, "x"), "stage: job job has no 'z'"),
        (report("a", 0, "x"), "replica: there is no 0"),
        (report("a", 5, "x"), "replica: there is no 5"),
        (report("a", 1, "x", slice=1), "slice: stage a has no slice 1"),
        (report("a", 1, "x", slice=-1), "slice: stage a has no slice -1"),
        (report("a", 1, "x", run=Run(0, 4)), "run: there is no run 0.4"),
        (report("a", 1, "x", run=Run(-1, 0)), "run: there is no run -1.0"),
        (report("a", 1, "x", seq=-1), "seq"),
        (report("a", 1, "x", seq=10**9), "seq"),
        (report("a", 1, "x", rows=-1), "rows"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(given: object, message: str) -> None:
    judge = verifier()
    before = judge.standing()
    with pytest.raises(InvalidArgumentError, match=message):
        judge.report(given, 0.0)  # type: ignore[arg-type]
    assert judge.standing() == before


def test_a_foreign_job_is_refused() -> None:
    judge = Verifier("other", ONE, FOUR)
    with pytest.raises(InvalidArgumentError, match="verifier of 'other', not of 'job'"):
        judge.report(report("a", 1, "x"), 0.0)


def test_a_talkative_replica_is_heard_no_more() -> None:
    judge = verifier(plan=ONE)
    words = [report("a", 1, "x", of=digest(str(number))) for number in range(MAX_WORDS + 1)]
    for word in words[:-1]:
        judge.report(word, 0.0)
    with pytest.raises(InvalidArgumentError, match="said too much"):
        judge.report(words[-1], 0.0)
    tell(judge, "a", ".xxx")
    assert agreed(judge, "a") == "x"


def test_what_one_replica_says_in_all_has_an_end() -> None:
    """It goes with what an honest one may have to say: all slices once in each run."""
    plan = Plan({"a": (), "b": ("a",)}, slices=50)
    judge = verifier(plan=plan, retries=2)
    taken = 0
    refusals: set[str] = set()
    for word in range(MAX_WORDS):
        for stage in plan.stages:
            for number in range(50):
                lie = report(stage, 1, "x", of=digest(str(word)), slice=number)
                try:
                    taken += judge.report(lie, 0.0)
                except InvalidArgumentError as error:
                    refusals.add(str(error))
    assert taken == (2 + 2) * 2 * 50 + MAX_WORDS
    assert refusals
    assert all("said too much" in each for each in refusals)
    assert not judge.report(report("a", 1, "x", of=digest("0")), 0.0), "that is known"
    for replica in (2, 3, 4):
        for number in range(50):
            judge.report(report("a", replica, "x", slice=number), 0.0)
    assert judge.verdict("a").is_ok


def test_a_replica_that_speaks_of_too_many_chunks_is_heard_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.verify.machine.stage.MAX_CHUNK_WORDS", 3)
    judge = verifier(plan=ONE)
    for seq in range(3):
        judge.report(report("a", 1, "x", seq=seq), 0.0)
    with pytest.raises(InvalidArgumentError, match="said too much"):
        judge.report(report("a", 1, "x", seq=3), 0.0)
    tell(judge, "a", "xxx")
    assert agreed(judge, "a") == "x"


def test_a_replica_that_tells_too_much_raw_is_heard_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.verify.machine.stage.MAX_RAW", 10)
    judge = verifier(plan=ONE)

    def raw(replica: int, seq: int, data: bytes) -> Report:
        return replace(report("a", replica, "x", seq=seq), digest=sha256(data).digest(), data=data)

    judge.report(raw(1, 0, bytes(6)), 0.0)
    with pytest.raises(InvalidArgumentError, match="said too much"):
        judge.report(raw(1, 1, bytes(5)), 0.0)
    judge.report(raw(1, 1, bytes(4)), 0.0)
    for replica in (2, 3):
        judge.report(raw(replica, 0, bytes(6)), 0.0)
    assert judge.raw_chunk("a", 0, 0) == bytes(6)
    assert judge.raw_chunk("a", 0, 1) is None
    with pytest.raises(InvalidArgumentError, match="said too much"):
        judge.report(raw(1, 2, bytes(1)), 0.0)
    tell(judge, "a", "xxyy")
    judge.report(replace(raw(1, 2, bytes(6)), run=RUN1), 0.0)
    assert judge.report(raw(1, 2, bytes(4)), 0.0), "who computes again may tell again"


def test_copies_that_are_broken_again_and_again_end_the_job() -> None:
    judge = verifier(plan=ONE, retries=1)
    tell(judge, "a", "xxx")
    for maker in (1, 2, 3):
        judge.broken("a", 0, maker, COORDINATOR, 0.0)
    judge.report(report("a", 1, "x", run=RUN1), 0.0)
    judge.broken("a", 0, 1, COORDINATOR, 0.0)
    assert judge.state is JobState.FAILED
    assert "no good copy is left of slice 0 after it was computed again 1 times" in judge.failure


def test_what_is_done_stays_done_whatever_is_found_later() -> None:
    judge = verifier(PAIR, ONE)
    tell(judge, "a", "x")
    assert judge.state is JobState.DONE
    tell(judge, "a", ".y")
    assert judge.state is JobState.DONE
    assert kinds(judge) == [(Kind.OUTVOTED, 2)]


def test_faults_of_a_crash_model_with_two_replicas() -> None:
    judge = verifier(Quorum(Model.CRASH), ONE)
    judge.gone(1, 0.0)
    judge.report(report("a", 2, "x", of=ROOT), 1.0)
    assert judge.state is JobState.DONE


def test_slices_that_are_lost_together_are_computed_again_once() -> None:
    plan = Plan({"a": ()}, slices=2)
    judge = verifier(plan=plan)
    for number in (0, 1):
        for replica in (1, 2, 3):
            judge.report(report("a", replica, "x", slice=number), 0.0)
    assert judge.state is JobState.DONE
    for number in (0, 1):
        for maker in (1, 2, 3):
            judge.broken("a", number, maker, COORDINATOR, 0.0)
    assert judge.verdict("a").run == RUN1
    for number in (0, 1):
        judge.report(report("a", 1, "x", run=RUN1, slice=number), 0.0)
    assert judge.state is JobState.DONE


def test_those_who_wait_are_told_of_turns_and_not_of_every_word() -> None:
    """Else each report of each slice would be told to all replicas, with all other slices."""
    judge = verifier(FOUR, Plan({"a": (), "b": ("a",)}, slices=2))

    def turns(*reports: tuple[int, int, str]) -> bool:
        before = judge.version
        assert judge.turned <= before
        for replica, number, word in reports:
            judge.report(report("a", replica, word, slice=number), 0.0)
        assert judge.version > before
        return judge.turned > before

    assert not turns((1, 0, "x"), (2, 0, "x"), (1, 1, "y"), (2, 1, "y"))
    assert not turns((3, 0, "x")), "one slice of two is agreed upon"
    assert turns((3, 1, "y")), "the stage is"
    assert turns((4, 0, "z")), "somebody is found to be wrong"
    assert not turns((4, 1, "y"))
    before = judge.version
    judge.broken("a", 1, 3, 2, 0.0)
    assert judge.turned > before
    judge.gone(1, 0.0)
    assert judge.turned == judge.version


def test_memory_goes_with_what_is_reported() -> None:
    """1,024 slices of 7 replicas, of which one talks without end."""
    judge = verifier(SEVEN, Plan({"a": ()}, slices=1024), limit=60.0)
    tracemalloc.start()
    for number in range(1024):
        tell_slice = partial(report, "a", slice=number)
        for replica in SEVEN.numbers:
            judge.report(tell_slice(replica, "x" if replica > 1 else "y"), 0.0)
            assert (judge.next_wake is None) == (judge.state is JobState.DONE)
        for time in range(10):
            judge.report(replace(tell_slice(1, "y"), path="job/1/" + f"{time}" * 500), 0.0)
    assert judge.standing().state is JobState.DONE
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 7 * 1024 * 2000, "two kilobytes a report, all told"


@pytest.mark.parametrize(
    ("own_files", "kind"), [(True, Kind.OVER_QUOTA), (False, Kind.MISSING)], ids=["own", "shared"]
)
def test_a_replica_is_named_for_room_only_where_no_other_can_write(
    own_files: bool, kind: Kind
) -> None:
    of = Verifier("job", ONE, FOUR, Rules(own_files=own_files))
    of.gone(2, 1.0, over_quota="took 9 MiB")
    assert kinds(of) == [(kind, 2)]
    assert "took 9 MiB" in of.findings[0].text
