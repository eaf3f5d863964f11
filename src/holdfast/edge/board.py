"""The live table of `holdfast edge run`: each node, how it is and what it owns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.edge.client import Client
from holdfast.edge.errors import SilentError
from holdfast.edge.fleet import Fleet
from holdfast.edge.layout import Layout
from holdfast.edge.runner import asked_to_end

__all__ = ["ask_all", "node_table", "run_edge"]

EVERY: Final = 1.0


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


def window_text(window: Mapping[str, Any]) -> str:
    """One line about a window."""
    at = time.strftime("%H:%M:%S", time.localtime(window["start"] / 1e6))
    late = (window["at"] - window["newest"]) / 1e3 if window["newest"] else 0.0
    text = f"{window['query']} from {at}: {window['answer']}"
    return text + ("" if not window["newest"] else f", {late:.0f} ms after its last event")


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
        seen = 0
        with Live(console=console, auto_refresh=False, transient=False) as live:
            while not ending():
                for name in fleet.restart_ended():
                    console.print(f"{name} had ended, and is started again", style="yellow")
                statuses = ask_all(client, fleet)
                live.update(node_table(layout, statuses), refresh=console.is_terminal)
                if statuses.get("root"):
                    said = client.ask("root", "windows", {"first": seen})
                    seen = said["next"]
                    for window in said["windows"][-10:]:
                        console.print(window_text(window), markup=False, highlight=False)
                pause.wait(EVERY)
