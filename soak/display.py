"""What a campaign shows while it runs: a live status on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from soak.campaign import Failure, Outcome

__all__ = ["Display", "replay_command", "say"]

SECONDS_BETWEEN_LINES = 5.0


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print text as it is: no markup, no colouring of numbers, no line breaks of our own."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def replay_command(campaign: str, failure: Failure) -> str:
    return f"make soak PART={campaign} SEED={failure.seed}"


class Display:
    """Shows one campaign; a context manager, for a live status has to be taken down."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._status = console.status("")
        self._last_line = clock()

    def __enter__(self) -> Display:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def started(self, outcome: Outcome, seed: int) -> None:
        self._status.update(escape(f"{outcome}; running seed {seed}"))

    def passed(self, outcome: Outcome, seed: int, line: str) -> None:
        now = self._clock()
        if not self._console.is_terminal and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            say(self._console, f"  {outcome}; seed {seed}: {line}")

    def failed(self, outcome: Outcome, failure: Failure) -> None:
        say(self._console, f"  FAILED seed {failure.seed}: {failure.reason}", style="red")
        say(self._console, f"  replay: {replay_command(outcome.name, failure)}")
