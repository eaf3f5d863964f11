"""Heartbeats: who is asked and when, and what answers and silence mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import Heartbeat, Progress, Send, Vitals
from holdfast.pipeline.machine.monitor import Monitor, demote
from holdfast.pipeline.machine.states import State

S, U, Z, F = State.STABLE, State.UP_FAILURE, State.STABILIZATION, State.FAILURE
PERIOD = 100


def vitals(**streams: tuple[State, int]) -> Vitals:
    return Vitals({name: Progress(*progress) for name, progress in streams.items()})


def make(missed: int = 2, replicas: Mapping[str, Sequence[str]] | None = None) -> Monitor:
    return Monitor(replicas or {"s": ["a", "b"]}, period=PERIOD, missed=missed)


def test_the_first_beat_goes_at_once_and_the_others_when_due() -> None:
    monitor = make()
    assert monitor.next_wake == 0
    assert [beat.to for beat in monitor.wake(7, {})] == ["a", "b"]
    assert monitor.next_wake == 107
    assert monitor.wake(106, {}) == []
    assert [beat.to for beat in monitor.wake(107, {})] == ["a", "b"]


def test_a_clock_behind_zero_does_not_hold_up_the_first_beat() -> None:
    assert make().wake(-50, {}) != []


def test_a_replica_gets_one_beat_with_the_acks_of_its_own_streams() -> None:
    monitor = make(replicas={"s": ["a", "b"], "t": ["b", "c"]})
    assert monitor.wake(0, {"s": 3, "t": 4, "foreign": 5}) == [
        Send("a", Heartbeat({"s": 3})),
        Send("b", Heartbeat({"s": 3, "t": 4})),
        Send("c", Heartbeat({"t": 4})),
    ]
    assert monitor.wake(PERIOD, {"t": 6})[0] == Send("a", Heartbeat({}, PERIOD))


def test_nobody_is_trusted_before_the_first_answer() -> None:
    monitor = make()
    monitor.wake(0, {})
    assert monitor.states("s") == {"a": F, "b": F}
    assert monitor.take("b", vitals(s=(S, 40)))
    assert monitor.states("s") == {"a": F, "b": S}
    assert monitor.ends("s") == {"a": 0, "b": 40}


def test_an_answer_tells_whether_any_state_changed() -> None:
    monitor = make()
    assert monitor.take("a", vitals(s=(S, 10)))
    assert not monitor.take("a", vitals(s=(S, 20)))
    assert monitor.ends("s")["a"] == 20
    assert monitor.take("a", vitals(s=(U, 20)))


def test_strangers_and_foreign_streams_are_ignored() -> None:
    monitor = make(replicas={"s": ["a"], "t": ["b"]})
    assert not monitor.take("x", vitals(s=(S, 1)))
    assert not monitor.take("b", vitals(s=(S, 1)))
    assert monitor.states("s") == {"a": F}


def test_a_replica_that_lives_but_does_not_speak_of_a_stream_has_failed_for_it() -> None:
    monitor = make(replicas={"s": ["a"], "t": ["a"]})
    monitor.take("a", vitals(s=(S, 1), t=(S, 2)))
    assert monitor.take("a", vitals(t=(S, 3)))
    assert monitor.states("s") == {"a": F}
    assert monitor.states("t") == {"a": S}


@pytest.mark.parametrize("missed", [0, 1, 3])
def test_more_than_so_many_missed_beats_are_a_failure(missed: int) -> None:
    monitor = make(missed)
    monitor.take("a", vitals(s=(S, 10)))
    for beat in range(missed + 1):
        monitor.wake(beat * PERIOD, {})
        assert monitor.states("s")["a"] is S
    monitor.wake((missed + 1) * PERIOD, {})
    assert monitor.states("s")["a"] is F
    assert monitor.ends("s")["a"] == 10


def test_an_answer_now_and_then_keeps_a_replica_alive() -> None:
    monitor = make(missed=2)
    for beat in range(30):
        if beat % 3 == 0:
            monitor.take("a", vitals(s=(S, beat)))
        monitor.wake(beat * PERIOD, {})
        assert monitor.states("s")["a"] is S


def test_a_failed_replica_is_probed_for_ever_and_comes_back() -> None:
    monitor = make(missed=1)
    for beat in range(1000):
        assert "a" in {beat.to for beat in monitor.wake(beat * PERIOD, {})}
    assert monitor.take("a", vitals(s=(Z, 5)))
    assert monitor.states("s")["a"] is Z
    monitor.wake(1000 * PERIOD, {})
    monitor.wake(1001 * PERIOD, {})
    assert monitor.states("s")["a"] is Z


def test_ones_own_sleep_is_not_the_others_silence() -> None:
    monitor = make(missed=1)
    monitor.wake(0, {})
    monitor.take("a", vitals(s=(S, 1)))
    monitor.wake(PERIOD, {})
    assert len(monitor.wake(1000 * PERIOD, {})) == 2
    assert monitor.states("s")["a"] is S
    assert monitor.next_wake == 1001 * PERIOD


@pytest.mark.parametrize(
    ("replicas", "period", "missed", "names"),
    [
        ({"s": ["a"]}, 0, 1, "period"),
        ({"s": ["a"]}, 1, -1, "missed"),
        ({"s": []}, 1, 1, "'s'"),
        ({"s": ["a", "a"]}, 1, 1, "'s'"),
    ],
)
def test_senseless_settings_are_refused(
    replicas: dict[str, list[str]], period: int, missed: int, names: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=names):
        Monitor(replicas, period=period, missed=missed)


@pytest.mark.parametrize(
    ("failing_for", "limit", "caught_up", "expected"),
    [
        (0, 10, set(), [S, S, U, Z, F]),
        (10, 10, set(), [S, S, U, Z, F]),
        (11, 10, set(), [Z, Z, U, Z, F]),
        (11, 10, {"b"}, [Z, S, U, Z, F]),
        (11, 10, {"a", "b", "c", "d", "e"}, [S, S, U, Z, F]),
        (11, float("inf"), set(), [S, S, U, Z, F]),
    ],
)
def test_after_a_long_failure_a_stable_replica_counts_as_correcting(
    failing_for: float, limit: float, caught_up: set[str], expected: list[State]
) -> None:
    states = dict(zip("abcde", [S, S, U, Z, F], strict=True))
    demoted = demote(states, failing_for, limit, caught_up)
    assert demoted == dict(zip("abcde", expected, strict=True))
