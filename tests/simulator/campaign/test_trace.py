from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from simulator.campaign.result import attempt
from simulator.campaign.trace import Event, Trace, shorten, write_trace
from simulator.scenario import Options, draw_scenario


def shortened(*notes: tuple[str, str]) -> list[str]:
    trace = Trace()
    for time, (who, what) in enumerate(notes):
        trace.note(time, who, what)
    return [f"{event.who}: {event.word}" for event in shorten(trace.events)]


def test_buckets_and_first_steps_are_no_news() -> None:
    assert (
        shortened(
            ("s1/0", "reads a of a from 0.0 s on"),
            ("s1/0", "STABLE"),
            ("s1/0", "base processes buckets 0 to 0"),
            ("s1/0", "fork processes buckets 1 to 1"),
            ("client:u", "INSERT 3 rows to 0.1 s"),
        )
        == []
    )


def test_reading_from_the_start_again_is_news() -> None:
    again = ("s1/0", "reads a of a from 0.0 s on, for corrections")
    assert shortened(again, again) == ["s1/0: reads"]


def test_every_change_of_state_is_told() -> None:
    states = ["STABLE", "UP_FAILURE", "UP_FAILURE", "STABILIZATION", "STABLE", "FAILURE"]
    assert shortened(*(("s1/0", state) for state in states)) == [
        "s1/0: UP_FAILURE",
        "s1/0: STABILIZATION",
        "s1/0: STABLE",
        "s1/0: FAILURE",
    ]


def test_a_client_is_told_each_kind_once_until_all_is_corrected() -> None:
    outage = ["INSERT", "TENTATIVE", "TENTATIVE", "UNDO", "INSERT", "TENTATIVE", "UNDO", "REC_DONE"]
    told = shortened(*(("c", f"{word} 1 rows to 0.1 s") for word in [*outage, *outage]))
    assert told == [
        *("c: TENTATIVE", "c: UNDO", "c: REC_DONE"),
        *("c: INSERT", "c: TENTATIVE", "c: UNDO", "c: REC_DONE"),
    ]


def test_faults_are_always_told() -> None:
    freeze = ("s1/0", "freeze begins")
    assert len(shortened(freeze, freeze, ("s1/0", "freeze ends"))) == 3


def test_commands_of_a_node_are_told_in_words() -> None:
    trace = Trace()
    trace.note(1_297_000, "s1/0", "fork")
    assert str(trace.events[0]) == " 1.297000  s1/0  forks: previews begin"


def test_a_real_run_becomes_much_shorter_and_keeps_its_faults() -> None:
    scenario, trace = draw_scenario(3, Options()), Trace()
    attempt(scenario, trace.note)
    news = list(shorten(trace.events))
    assert 0 < len(news) < len(trace.events) / 2
    assert sum(event.is_fault for event in news) == 2 * len(scenario.faults)


def test_all_of_a_trace_is_written(tmp_path: Path) -> None:
    write_trace(
        [Event(500_000, "a", "crash begins"), Event(600_000, "a", "crash ends")], tmp_path / "t"
    )
    assert (tmp_path / "t").read_text() == (
        " 0.500000  a  crash begins\n 0.600000  a  crash ends\n"
    )


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be written"):
        write_trace([], tmp_path / "absent" / "trace.txt")
