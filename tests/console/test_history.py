"""The last hour, against a list of all that was."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.console import history as history_module
from holdfast.console.history import STALE, History
from holdfast.console.pollers import FIGURES, SEVERITIES, Condition

START = 1_790_000_000


def condition(state: str, number: float = 0.0) -> Condition:
    return Condition({"state": state}, (number,) * len(FIGURES))


@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.sampled_from("ab"), st.sampled_from(list(SEVERITIES))),
        min_size=1,
    ),
    st.integers(0, 100),
)
def test_facts_are_those_of_the_last_change_before(
    changes: list[tuple[int, str, str]], asked: int
) -> None:
    history = History(["a", "b"])
    changes.sort(key=lambda change: change[0])
    for at, name, state in changes:
        history.change(START + at, name, {"state": state})
    right = {name: state for at, name, state in changes if at <= asked}
    found = history.at(START + asked)
    assert {name: each.state for name, each in found.items()} == right


def test_numbers_are_those_of_the_second_or_shortly_before() -> None:
    history = History(["a"])
    history.change(START, "a", {"state": "STABLE"})
    for second in range(100):
        if second not in (50, 51):
            history.tick(START + second, {"a": condition("STABLE", float(second))})

    def number(at: float) -> float:
        return history.at(START + at)["a"].figures[0]

    assert number(7.9) == 7
    assert number(51) == 49
    assert number(99 + STALE - 1) == 99
    assert math.isnan(number(99 + STALE))


def test_after_an_hour_the_oldest_is_gone_and_the_memory_is_the_same() -> None:
    history = History(["a"], seconds=60)
    size = history._figures.nbytes
    for second in range(600):
        history.change(START + second, "a", {"state": "STABLE", "starts": second})
        history.tick(START + second, {"a": condition("STABLE", float(second))})
    now = START + 599.0
    assert history.begins(now) == now - 60
    assert history.at(now - 59)["a"].figures[0] == 540
    assert math.isnan(history.at(now - 120).get("a", condition("STABLE", math.nan)).figures[0])
    assert history._figures.nbytes == size
    assert len(history._changes["a"]) <= 62


def test_how_it_was_when_the_hour_began_is_kept() -> None:
    history = History(["a"], seconds=60)
    history.change(START, "a", {"state": "FAILURE"})
    history.change(START + 10, "a", {"state": "STABLE"})
    history.change(START + 1000, "a", {"state": "FAILURE"})
    assert history.at(START + 945)["a"].state == "STABLE"


def test_a_party_that_changes_without_end_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(history_module, "CHANGES", 10)
    history = History(["a"])
    for number in range(100):
        history.change(START + number / 100, "a", {"state": "STABLE", "starts": number})
    assert history.at(START + 1)["a"].facts["starts"] == 99
    assert "a" not in history.at(START + 0.5)


def test_the_hour_at_a_glance_shows_the_worst_of_each_piece() -> None:
    history = History(["a", "b"])
    for second in range(3600):
        state = "UP_FAILURE" if 1000 <= second < 1004 else "STABLE"
        worst = "ABSENT" if second == 3000 else "STABLE"
        history.tick(START + second, {"a": condition(state), "b": condition(worst)})
    cells = history.overview(START, START + 3600, 240)
    assert len(cells) == 240
    assert cells[1000 // 15] == SEVERITIES["UP_FAILURE"]
    assert cells[3000 // 15] == SEVERITIES["ABSENT"]
    assert sorted(cells)[:-2] == [SEVERITIES["STABLE"]] * 238
    assert history.overview(START - 7200, START - 3600, 10) == [0] * 10


def test_votes_and_batches_can_be_gone_back_to() -> None:
    history = History(["a", "b"])
    for second in range(100):
        ballots = (
            {} if second < 10 else {"clean": {"replicas": ["x"], "buckets": [[second, "a", 0]]}}
        )
        found = Condition({"state": "STABLE"}, (float(second),) * len(FIGURES), ballots=ballots)
        if second == 0:
            history.change(START, "a", found.facts)
        if second != 50:
            history.tick(START + second, {"a": found})
    assert history.at(START + 5)["a"].ballots == {}
    assert history.at(START + 30)["a"].ballots["clean"]["buckets"] == [[30, "a", 0]]
    series = history.series("batch_seconds", START + 60, 60)
    assert series["a"] == [float(each) for each in range(1, 50)] + [0.0] + list(range(51, 61))
    assert series["b"] == [0.0] * 60
