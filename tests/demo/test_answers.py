from __future__ import annotations

from holdfast.demo.answers import Answers, count_differences
from holdfast.pipeline.machine.tuples import Kind
from tests.demo.rig import answer, told


def test_rows_are_counted_as_what_they_are() -> None:
    answers = Answers()
    answers.take(1, told(Kind.INSERT, 10, answer(8), answer(9)))
    answers.take(2, told(Kind.TENTATIVE, 20, answer(10), answer(11), answer(12)))
    assert (answers.final, answers.tentative, answers.withdrawn) == (2, 3, 0)
    assert not answers.is_corrected
    assert answers.boundary == 10
    answers.take(3, told(Kind.UNDO, 10))
    assert answers.withdrawn == 3
    assert answers.is_corrected
    answers.take(4, told(Kind.INSERT, 20, answer(10)))
    answers.take(5, told(Kind.REC_DONE, 20))
    answers.take(6, told(Kind.TENTATIVE, 30, answer(20)))
    assert (answers.final, answers.tentative, answers.withdrawn) == (3, 4, 3)
    assert answers.boundary == 20


def test_what_was_told_from_a_moment_on() -> None:
    answers = Answers()
    for at, kind in enumerate([Kind.INSERT, Kind.TENTATIVE, Kind.UNDO, Kind.INSERT]):
        answers.take(at, told(kind, 10))
    assert answers.kinds(1) == [Kind.TENTATIVE, Kind.UNDO, Kind.INSERT]
    assert answers.kinds(4) == []


def test_only_final_answers_are_read() -> None:
    answers = Answers()
    answers.take(1, told(Kind.INSERT, 10, answer(8), answer(9, total=7)))
    answers.take(2, told(Kind.TENTATIVE, 20, answer(10)))
    answers.take(3, told(Kind.INSERT, 20))
    assert answers.final_answers() == [answer(8), answer(9, total=7)]


def test_answers_that_are_wrong_missing_or_there_twice_differ() -> None:
    right = [answer(1), answer(2), answer(3)]
    assert count_differences(right, right) == 0
    assert count_differences(right[::-1], right) == 0
    assert count_differences(right[:2], right) == 1
    assert count_differences([*right, answer(3)], right) == 1
    assert count_differences([answer(1, total=0), *right[1:]], right) == 2
