"""Live table of `holdfast edge run`, and the nodes of an edge in tiers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.config.durations import Span
from holdfast.edge.process.client import Client
from holdfast.edge.process.config import ROOT, Layout
from holdfast.edge.process.fleet import Fleet
from holdfast.edge.process.runner import asked_to_end
from holdfast.errors import SilentError


def show_layout(layout: Layout, console: Console) -> None:
    table = Table(title=f"edge {layout.name}: {layout.guarantee}", title_justify="left")
    for column in ("tier", "group", "nodes"):
        table.add_column(column)
    table.add_row("root", "", f"root at {layout.root.address}")
    for group, members in layout.groups().items():
        for number, layer in reversed(list(enumerate(layout.layers(group), 1))):
            table.add_row(f"layer {number}", group, ", ".join(layer))
        table.add_row("children", group, ", ".join(members))
        sensors = [name for name, each in layout.sensors.items() if each.group == group]
        table.add_row("sensors", group, ", ".join(sensors) or "none in the file")
    console.print(table)
    for query in layout.asked():
        each = " for each key" if query.keyed else ""
        size, slide = Span(query.size), Span(query.slide)
        text = f"{query.id}: {query.aggregate}{each} over {size}, every {slide}"
        console.print(text, highlight=False, markup=False)


EVERY: Final = 1.0
SHOWN_KEYS: Final = 5
SHOWN_TEXT: Final = 200

logger = logging.getLogger("holdfast.edge")


def ask_all(client: Client, fleet: Fleet, *, patience: float = 0.3) -> dict[str, Any]:
    """What every node that runs says of itself; nodes that do not answer say nothing."""
    found = {}
    for name in list(fleet.processes):
        if name not in fleet.layout.sensors:
            try:
                found[name] = client.ask(name, "status", patience=patience)
            except SilentError:
                found[name] = None
    return found


def node_table(
    layout: Layout, statuses: Mapping[str, Any], dead: Iterable[str] = (), title: str = ""
) -> Table:
    """Children with what they own, and how much the others suspect each."""
    table = Table(title=title or None, title_justify="left", expand=False)
    for column in ("node", "state", "phi", "owns", "took over", "events", "re-streamed", "memory"):
        table.add_column(column, justify="right" if column not in ("node", "state") else "left")
    gone = set(dead)
    for name in (*layout.children, *layout.intermediates):
        status = statuses.get(name)
        phi = _worst_phi(name, statuses)
        if name in gone or status is None:
            state = "[red]dead[/]" if name in gone else "[yellow]silent[/]"
            table.add_row(name, state, phi, "", "", "", "", "")
            continue
        ready = status.get("ready")
        table.add_row(
            name,
            "[green]alive[/]" if ready else "[yellow]waits for its group[/]",
            phi,
            ", ".join(f"p{each}" for each in status.get("owned", [])),
            str(status.get("takeovers", "")),
            f"{status['events']:,}" if "events" in status else "",
            f"{status['replayed']:,}" if "replayed" in status else "",
            f"{status['memory'] >> 20} MB",
        )
    return table


def _worst_phi(name: str, statuses: Mapping[str, Any]) -> str:
    """How much the one suspects it who suspects it most."""
    said = [each["phi"].get(name, 0.0) for each in statuses.values() if each and "phi" in each]
    if not said:
        return ""
    worst = max(said)
    text = ">99" if worst > 99 else f"{worst:.1f}"
    return f"[red]{text}[/]" if worst >= 8 else text


def refusals(statuses: Mapping[str, Any]) -> list[str]:
    """Lines about events that children have refused: by sensor and reason, summed over them."""
    found: Counter[tuple[str, str]] = Counter()
    for status in statuses.values():
        for sensor, reasons in ((status or {}).get("refused") or {}).items():
            found.update({(sensor, reason): count for reason, count in reasons.items()})
    return [
        f"{sensor}: {count:,} events refused: {reason}"
        for (sensor, reason), count in sorted(found.items())
    ]


def show_status(client: Client, layout: Layout, console: Console) -> None:
    """All nodes of the file, and whatever is wrong."""
    statuses = {name: _ask(client, name) for name in (ROOT, *layout.children)}
    statuses |= {name: _ask(client, name) for name in layout.intermediates}
    console.print(node_table(layout, statuses))
    for line in _notes(statuses):
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


def _ask(client: Client, node: str) -> Any:
    try:
        return client.ask(node, "status", patience=1.0)
    except SilentError:
        return None


def _notes(statuses: Mapping[str, Any]) -> list[str]:
    """What a table has no room for."""
    root = statuses.get(ROOT)
    found = [] if root is not None else ["root: does not answer"]
    if root is not None and root.get("paused"):
        found.append(f"root: cannot write windows down: {root['paused']}; make room for them")
    found += root.get("stands", ()) if root is not None else ()
    return found + refusals(statuses)


def window_text(window: Mapping[str, Any]) -> str:
    """One line about a window."""
    at = time.strftime("%H:%M:%S", time.localtime(window["start"] / 1e6))
    late = (window["at"] - window["newest"]) / 1e3 if window["newest"] else 0.0
    text = f"{window['query']} from {at}: {_short(window)}"
    if not window["complete"]:
        text += f", not complete ({window['missing']:,} missing)"
    return text + ("" if not window["newest"] else f", {late:.0f} ms after its last event")


def _short(window: Mapping[str, Any]) -> str:
    """The answer, in a line at most."""
    answer = window["answer"]
    if isinstance(answer, dict):
        shown = dict(islice(answer.items(), SHOWN_KEYS))
        more = window.get("keys", len(answer)) - len(shown)
        text = _cut(str(shown))
        return f"{text} and {more:,} more keys" if more else text
    return _cut(str(answer))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT] + " ..."


def run_edge(file: Path, console: Console, *, without_root: bool = False) -> None:
    """Run all nodes of a file until Ctrl-C; one that ends is started again."""
    layout = Layout.read(file)
    folder = layout.path(f"{layout.name}-logs")
    with (
        Fleet(layout, file.absolute(), folder) as fleet,
        Client(layout) as client,
        asked_to_end() as ending,
    ):
        if without_root:
            fleet.start(*layout.intermediates, *layout.children, *layout.sensors)
        else:
            fleet.start_all()
        console.print(f"running {', '.join(fleet.processes)}; logs in {folder}", soft_wrap=True)
        pause = Event()
        board = _Board(layout, fleet, client, console)
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while not ending():
                restarted = _restart_ended(fleet)
                try:
                    board.show(live, restarted)
                except (Exception, SystemExit) as error:
                    # What cannot be shown is no reason to end what runs, be it that nobody reads
                    # the output any more.
                    logger.warning("the nodes run on, but cannot be shown: %s", error)
                pause.wait(EVERY)


def _restart_ended(fleet: Fleet) -> list[str]:
    try:
        return fleet.restart_ended()
    except OSError as error:
        # No room for its log, or no memory: it is tried again.
        logger.warning("a node has ended and cannot be started again now: %s", error)
        return []


class _Board:
    def __init__(self, layout: Layout, fleet: Fleet, client: Client, console: Console) -> None:
        self._layout = layout
        self._fleet = fleet
        self._client = client
        self._console = console
        self._next = 0
        self._noted: set[str] = set()

    def show(self, live: Live, restarted: Iterable[str]) -> None:
        console = self._console
        for name in restarted:
            console.print(f"{name} had ended, and is started again", style="yellow")
        statuses = ask_all(self._client, self._fleet)
        live.update(node_table(self._layout, statuses), refresh=console.is_terminal)
        root = statuses.get(ROOT)
        if root:
            asked = {"first": self._next, "keys": SHOWN_KEYS}
            said = self._client.ask(ROOT, "windows", asked)
            self._next = said["next"]
            for window in said["windows"][-10:]:
                console.print(window_text(window), markup=False, highlight=False)
        for line in _notes(statuses) if root else ():
            # Once for each thing, not for each count of it.
            topic = "".join(each for each in line if not each.isdigit())
            if topic not in self._noted:
                self._noted.add(topic)
                console.print(line, style="yellow", markup=False, highlight=False)
