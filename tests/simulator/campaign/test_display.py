from __future__ import annotations

import io

from rich.console import Console

from simulator.campaign.display import SECONDS_BETWEEN_LINES, Display
from simulator.campaign.result import Result, Tally


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_there_is_a_line_now_and_then(console, printed) -> None:
    clock, tally = Clock(), Tally()
    with Display(console, 1_000, clock) as display:
        for seed in range(20):
            clock.now += SECONDS_BETWEEN_LINES / 5
            tally.add(Result(seed, ("wrong",) if seed == 7 else ()))
            display.update(tally)
    assert printed().splitlines() == [
        "  5 of 1,000 seeds, 1.0 a second",
        "  10 of 1,000 seeds, 1 failed, 1.0 a second",
        "  15 of 1,000 seeds, 1 failed, 1.0 a second",
        "  20 of 1,000 seeds, 1 failed, 1.0 a second",
    ]


def test_on_a_terminal_there_is_a_bar_that_goes_away() -> None:
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True)
    clock, tally = Clock(), Tally()
    with Display(console, 10, clock) as display:
        clock.now = 60.0
        tally.add(Result(0))
        display.update(tally)
    assert "1/10" in file.getvalue()
    assert " of 10 seeds" not in file.getvalue()
