"""What `holdfast edge demo` shows: sensors, children and a root as processes, three children killed
before one's eyes, and every window compared with what the sensors emitted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.edge.board import ask_all, node_table, window_text
from holdfast.edge.client import Client
from holdfast.edge.errors import EdgeError
from holdfast.edge.fleet import Fleet
from holdfast.edge.layout import Layout
from holdfast.edge.plant import Expected, write_plant

__all__ = ["run_demo"]

SENSORS: Final = 6
CHILDREN: Final = 8
RATE: Final = 10_000
WINDOW: Final = 4_000_000
VICTIMS: Final = ("c2", "c5", "c7")
PATIENCE: Final = 40.0
LOOK: Final = 0.25
AFTER: Final = 3
"""Windows after the kill."""
QUERIES: Final = {
    "readings": {"aggregate": "count", "size": "4s"},
    "total": {"aggregate": "sum", "size": "4s"},
}


def run_demo(console: Console) -> bool:
    """Whether every window was right."""
    with TemporaryDirectory(prefix="holdfast-edge-") as name:
        file = write_plant(
            Path(name), sensors=SENSORS, children=CHILDREN, rate=RATE, queries=QUERIES
        )
        layout = Layout.read(file)
        console.print(
            f"{SENSORS} sensors of {RATE:,} events a second, {CHILDREN} children, a root: "
            f"{SENSORS + CHILDREN + 1} processes. Windows of {WINDOW // 1_000_000} s."
        )
        with Fleet(layout, file, Path(name) / "logs") as fleet, Client(layout) as client:
            return _Show(console, layout, fleet, client).run()


class _Show:
    def __init__(self, console: Console, layout: Layout, fleet: Fleet, client: Client) -> None:
        self._console = console
        self._layout = layout
        self._fleet = fleet
        self._client = client
        self._dead: list[str] = []
        self._windows: list[dict[str, Any]] = []
        self._asked = 0
        self._note = "the processes start"

    def run(self) -> bool:
        fleet = self._fleet
        fleet.start_all()
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            self._until(live, lambda: self._through() > 0, "the processes start")
            kill_at = self._through() + 3 * WINDOW // 2
            self._until(
                live,
                lambda: time.time() * 1e6 >= kill_at,
                "all is well; three children die in the middle of the next window",
            )
            fleet.kill(*VICTIMS)
            self._dead = list(VICTIMS)
            self._console.print(
                f"{', '.join(VICTIMS)} killed with SIGKILL in the middle of a window", style="red"
            )
            last = kill_at + AFTER * WINDOW
            self._until(
                live,
                lambda: self._through() >= last,
                f"{', '.join(VICTIMS)} are dead: others take over, and sensors stream again what "
                "was not replicated",
            )
        statuses = ask_all(self._client, fleet)
        self._console.print(node_table(self._layout, statuses, self._dead))
        return self._compare()

    def _through(self) -> int:
        return max((each["end"] for each in self._windows), default=0)

    def _until(self, live: Live, done: Any, note: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            self._fleet.check()
            statuses = ask_all(self._client, self._fleet)
            if statuses.get("root"):
                said = self._client.ask("root", "windows", {"first": self._asked})
                self._asked = said["next"]
                self._windows += said["windows"]
                for window in said["windows"]:
                    self._console.print(window_text(window), markup=False, highlight=False)
            table = node_table(self._layout, statuses, self._dead)
            live.update(Group(table, Text(note, style="cyan")), refresh=self._console.is_terminal)
            if done():
                return
            if time.monotonic() > deadline:
                raise EdgeError(f"edge demo: waited {PATIENCE:.0f} s for nothing while {note}")
            time.sleep(LOOK)

    def _compare(self) -> bool:
        reports = [
            json.loads(self._fleet.report(name).read_text()) for name in self._layout.sensors
        ]
        expected = Expected(self._layout, reports)
        table = Table("window from", "query", "root says", "sensors emitted", "re-streamed", "")
        for window in self._windows:
            right = expected.answer(window)
            table.add_row(
                time.strftime("%H:%M:%S", time.localtime(window["start"] / 1e6)),
                window["query"],
                _number(window["answer"]),
                _number(right),
                f"{window['replayed']:,}",
                "[green]exact[/]" if window["answer"] == right else "[red]wrong[/]",
            )
        self._console.print(table)
        wrong = expected.differences(self._windows)
        counted = [each for each in self._windows if each["query"] == next(iter(QUERIES))]
        again = sum(window["replayed"] for window in counted)
        events = sum(report["emitted"] for report in reports)
        if wrong:
            self._console.print("\n".join(wrong), style="red", markup=False)
            return False
        self._console.print(
            f"[bold green]Every window is exact.[/] Of {events:,} events {again:,} had to be sent "
            "again: those that the dead had not replicated yet."
        )
        return True


def _number(value: Any) -> str:
    return "none" if value is None else f"{value:,.0f}"
