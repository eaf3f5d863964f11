from __future__ import annotations

import pytest

from benchmarks.timing import Alternative, Spread, measure


class Clock:
    """Time passes only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_alternatives_take_turns() -> None:
    turns: list[str] = []
    alternatives = [Alternative(name, lambda name=name: turns.append(name)) for name in "ab"]
    measure(alternatives, repeats=2, warmups=1)
    assert "".join(turns) == "ababab"


def test_only_the_run_is_timed_and_it_gets_what_was_prepared() -> None:
    clock = Clock()

    def prepare() -> tuple[float]:
        clock.now += 100
        return (2.0,)

    def run(seconds: float) -> None:
        clock.now += seconds

    timings = measure([Alternative("a", run, operations=10, prepare=prepare)], clock=clock)
    assert timings.seconds("a") == Spread(2.0, 2.0, 2.0)
    assert timings.rate("a") == Spread(5.0, 5.0, 5.0)


def test_a_ratio_is_taken_within_each_round() -> None:
    clock = Clock()
    durations = {"fast": iter([9.0, 1.0, 2.0, 4.0]), "slow": iter([9.0, 20.0, 20.0, 80.0])}

    def alternative(name: str, operations: int) -> Alternative:
        def run() -> None:
            clock.now += next(durations[name])

        return Alternative(name, run, operations)

    timings = measure([alternative("fast", 4), alternative("slow", 2)], repeats=3, clock=clock)
    # Rounds: (4/1)/(2/20), (4/2)/(2/20), (4/4)/(2/80); the first round only warmed up.
    assert timings.ratio("fast", "slow") == Spread(40.0, 20.0, 40.0)
    assert timings.ratio("fast", "slow").range == (20.0, 40.0)


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="same name"):
        measure([Alternative("a", list), Alternative("a", dict)])
