"""The command `holdfast edge demo`: a small edge, three children killed."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.edge.process.client import Client
from holdfast.edge.process.config import Layout
from holdfast.edge.process.display import ask_all, node_table, window_text
from holdfast.edge.process.event_input import Simulated
from holdfast.edge.process.fleet import Fleet
from holdfast.errors import EdgeError

_PORTS: Final = range(15_000, 32_000)
"""Below those that the kernel gives to connections."""


def free_ports(count: int) -> list[int]:
    """Different ones, free now."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        if port in found:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


def write_plant(
    folder: Path,
    *,
    sensors: int = 6,
    children: int = 8,
    layers: Iterable[int] = (),
    rate: float = 1_000,
    keys: int = 0,
    groups: int = 1,
    queries: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """The file of an edge with free ports. `layers`: how many intermediates in each; `groups`: that
    children and sensors belong to in turn; `settings`: fields of the file's top level; `queries`:
    by name, count over two seconds unless given."""
    folder.mkdir(parents=True, exist_ok=True)
    above = list(layers)
    ports = iter(free_ports(1 + children + sum(above)))
    lines = [f"{name} = {_toml(value)}" for name, value in (settings or {}).items()]
    lines += ["[root]", f'address = "127.0.0.1:{next(ports)}"', 'output = "windows.jsonl"']
    for number in range(1, children + 1):
        lines += [f"[children.c{number}]", f'address = "127.0.0.1:{next(ports)}"']
        lines += _group(number, groups)
    for layer, count in enumerate(above, 1):
        for number in range(1, count + 1):
            address = f'address = "127.0.0.1:{next(ports)}"'
            lines += [f"[intermediates.i{layer}{number}]", address, f"layer = {layer}"]
    for number in range(1, sensors + 1):
        lines += [f"[sensors.s{number}]", f"rate = {rate}", f"seed = {number}", f"keys = {keys}"]
        lines += _group(number, groups)
    for name, query in (queries or {"count": {"aggregate": "count", "size": "2s"}}).items():
        lines.append(f"[queries.{name}]")
        lines += [f"{field} = {_toml(value)}" for field, value in query.items()]
    path = folder / "plant.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _group(number: int, groups: int) -> list[str]:
    return [f'group = "g{1 + number % groups}"'] if groups > 1 else []


def _toml(value: Any) -> str:
    return json.dumps(value)


class Expected:
    """What windows must come to, from the reports of simulated sensors alone."""

    def __init__(self, layout: Layout, reports: Iterable[Mapping[str, Any]]) -> None:
        self._layout = layout
        self._sensors = []
        for report in reports:
            name = report["sensor"]
            settings = layout.sensors[name]
            count = report["emitted"] if report["left"] else settings.events
            self._sensors.append(
                Simulated(name, report["start"], settings.rate, settings.seed, settings.keys, count)
            )

    def answer(self, window: Mapping[str, Any]) -> Any:
        """Of count, sum, mean, min, max and range, keyed or not."""
        start, end = window["start"], window["end"]
        query = next(each for each in self._layout.asked() if each.id == window["query"])
        values = np.concatenate([each.within(start, end) for each in self._sensors])
        if not query.keyed:
            return _answer(query.aggregate, values)
        keys = np.array([k for each in self._sensors for k in each.keys_within(start, end)], object)
        return {key: _answer(query.aggregate, values[keys == key]) for key in sorted(set(keys))}

    def events(self, start: int, end: int) -> int:
        """How many there are in `[start, end)`."""
        return sum(each.before(end) - each.before(start) for each in self._sensors)

    def differences(self, windows: Iterable[Mapping[str, Any]]) -> list[str]:
        """What is wrong with windows: answers, and windows that are missing or come twice."""
        found = []
        last: dict[str, int] = {}
        slides = {query.id: query.slide for query in self._layout.asked()}
        for window in windows:
            query = window["query"]
            if query not in slides:
                continue
            if query in last and window["start"] != last[query] + slides[query]:
                found.append(f"{query}: {window['start']} comes after {last[query]}")
            last[query] = window["start"]
            right = self.answer(window)
            if window["answer"] != right:
                found.append(f"{query} {window['start']}: {window['answer']}, right is {right}")
        return found


def _answer(aggregate: str, values: Any) -> Any:
    if not len(values):
        return None
    match aggregate:
        case "count":
            return len(values)
        case "sum":
            return float(values.sum())
        case "mean":
            return float(values.sum()) / len(values)
        case "min":
            return float(values.min())
        case "max":
            return float(values.max())
        case "range":
            return float(values.max() - values.min())
    raise ValueError(f"{aggregate} is not recalculated here")


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
