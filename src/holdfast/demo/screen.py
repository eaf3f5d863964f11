"""The live view of the pipeline while it is broken: its processes, the client, what was done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.demo.answers import Answers
from holdfast.demo.errors import DemoError
from holdfast.demo.pipeline import Pipeline
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.display import count_text, seconds_text, state_text
from holdfast.pipeline.process.supervisor import Keeper

__all__ = ["Screen", "client_text", "parties_table", "strip"]

LOOK: Final = 0.2
"""Seconds between two looks."""
CELLS: Final = 72
"""So many pieces of the client's stream are in view."""
MARKS: Final = {
    Kind.INSERT: ("■", "green"),
    Kind.TENTATIVE: ("■", "yellow"),
    Kind.UNDO: ("↶", "bold red"),
    Kind.REC_DONE: ("✓", "bold green"),
}


class Screen:
    """On a terminal a page that is kept up to date, elsewhere lines. A context manager."""

    def __init__(self, console: Console, pipeline: Pipeline) -> None:
        self._console = console
        self._pipeline = pipeline
        self._said: list[Text] = []
        self._began = time.monotonic()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def say(self, text: str, style: str = "") -> None:
        """Tell what was done or seen, with the seconds since the beginning."""
        seconds = time.monotonic() - self._began
        line = Text.assemble((f"{seconds:5.1f} s  ", "dim"), (text, style))
        self._said.append(line)
        if self._live is None:
            self._console.print(line, soft_wrap=True)
        self.show()

    def show(self) -> None:
        if self._live is not None:
            self._live.update(self._page(), refresh=True)

    def wait(self, condition: Callable[[], object], seconds: float) -> bool:
        """Until the condition is true, with the page kept up to date; answers whether it is."""
        deadline = time.monotonic() + seconds
        while not condition():
            self._pipeline.check()
            if time.monotonic() > deadline:
                return False
            self.show()
            time.sleep(LOOK)
        self.show()
        return True

    def must(self, what: str, condition: Callable[[], object], seconds: float) -> None:
        """The same, but give up if it does not come true."""
        if not self.wait(condition, seconds):
            raise DemoError(
                f"waited {seconds:.0f} s for {what}; the logs are in {self._pipeline.logs}; is the "
                "machine busy with something else?"
            )

    def _page(self) -> RenderableType:
        answers = self._pipeline.answers
        parts: list[RenderableType] = [parties_table(self._pipeline.keepers.values())]
        parts += [client_text(answers), strip(answers), *self._said]
        return Group(*parts)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


def parties_table(keepers: Iterable[Keeper]) -> Table:
    table = Table("party", "state", box=SIMPLE_HEAD)
    for name in ("final rows", "tentative", "behind"):
        table.add_column(name, justify="right")
    table.add_column("cannot reach")
    for keeper in keepers:
        said = keeper.status or {}
        down = [party for party, is_up in said.get("links", {}).items() if not is_up]
        table.add_row(
            keeper.party.name,
            state_text(keeper),
            count_text(said, "stable_rows"),
            count_text(said, "tentative_rows"),
            seconds_text(said, "lag_seconds"),
            Text(", ".join(down), "red"),
        )
    return table


def client_text(answers: Answers) -> Text:
    return Text.assemble(
        "client: ",
        (f"{answers.final:,} final", "green"),
        " answers, ",
        (f"{answers.tentative:,} tentative", "yellow"),
        ", ",
        (f"{answers.withdrawn:,} withdrawn", "red"),
    )


def strip(answers: Answers) -> Text:
    """The newest pieces of the client's stream, a mark for each."""
    kinds: Sequence[Kind] = [told.kind for _, told in answers.told[-CELLS:]]
    return Text.assemble(*(MARKS[kind] for kind in kinds))
