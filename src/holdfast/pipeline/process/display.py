"""Live table of `holdfast run`: state and progress of each party."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Event
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.pipeline.process.supervisor import Keeper, Supervisor
from holdfast.pipeline.topology import Topology

EVERY = 1.0
"""Seconds between two looks."""

NOTABLE = 1.0
"""Seconds that a clock may be behind what a party has published before people are told."""

COLOURS: Final = {
    "STABLE": "green",
    "UP_FAILURE": "yellow",
    "STABILIZATION": "cyan",
    "FAILURE": "red",
}
WORDS: Final = {
    "STABLE": "stable",
    "UP_FAILURE": "tentative",
    "STABILIZATION": "correcting",
    "FAILURE": "silent",
}


def run_topology(
    file: Path,
    console: Console,
    *,
    only: Iterable[str] = (),
    options: Iterable[str] = (),
    metrics: int | None = None,
    ending: Event | None = None,
    routes: Mapping[str, Mapping[str, str]] | None = None,
    beside: Callable[[Supervisor], AbstractContextManager[object]] = lambda _: nullcontext(),
) -> None:
    """Run the parties of a file until Ctrl-C, or until `ending` is set. `metrics`: the port of the
    first party's figures. `routes`: as the supervisor has them. `beside`: what else goes on while
    they run."""
    topology = Topology.read(file)
    ending = ending or Event()
    supervisor = Supervisor(
        topology, file.absolute(), list(only), list(options), metrics, routes or {}
    )
    with supervisor, beside(supervisor):
        keepers = supervisor.keepers
        try:
            if console.is_terminal:
                with Live(console=console, auto_refresh=False) as live:
                    _keep(supervisor, ending, lambda: live.update(_page(supervisor), refresh=True))
            else:
                console.print(f"running {', '.join(keepers)}", soft_wrap=True, highlight=False)
                seen: dict[str, str] = {}
                _keep(supervisor, ending, lambda: _print_changes(supervisor, console, seen))
        except KeyboardInterrupt:
            pass
        console.print("ending all parties", highlight=False)


def _keep(supervisor: Supervisor, ending: Event, show: Callable[[], object]) -> None:
    while not ending.is_set():
        supervisor.look()
        show()
        ending.wait(EVERY)


def _page(supervisor: Supervisor) -> RenderableType:
    logs = supervisor.topology.state_folder / "logs"
    return Group(
        status_table(supervisor.topology.name, supervisor.keepers.values()),
        Text(f"what they say is in {logs}; Ctrl-C ends all", style="dim"),
    )


def status_table(title: str, keepers: Iterable[Keeper]) -> Table:
    table = Table(title=title)
    table.add_column("party")
    table.add_column("state")
    for name in ("final rows", "tentative rows", "behind", "shown", "waiting", "batch"):
        table.add_column(name, justify="right")
    table.add_column("links")
    table.add_column("starts", justify="right")
    for keeper in keepers:
        table.add_row(keeper.party.name, state_text(keeper), *_facts(keeper), str(keeper.starts))
    return table


def state_text(keeper: Keeper) -> Text:
    """How a party is, in a word or two."""
    if keeper.process is None:
        wait = max(0.0, keeper.due - time.monotonic())
        return Text(f"ended ({keeper.code}), again in {wait:.0f} s", style="red")
    if keeper.status is None:
        return Text("starting" if keeper.party.address else "running", style="dim")
    if not keeper.status.get("ready", True):
        return Text("starting Spark", style="dim")
    state = str(keeper.status.get("state"))
    told = Text(WORDS.get(state, state), style=COLOURS.get(state, ""))
    for name, words in (
        ("waits_for", "waits for"),
        ("quarantined", "in quarantine:"),
        ("gave_up", "stopped, for replicas disagree:"),
    ):
        if found := keeper.status.get(name):
            told.append(f"; {words} {', '.join(found)}", style="red")
    if (ahead := keeper.status.get("clock_ahead_seconds", 0.0)) > NOTABLE:
        told.append(f"; its clock was set back, times are {ahead:.0f} s ahead", style="red")
    if keeper.status.get("went_back"):
        told.append("; its log has lost its end, see its log file", style="red")
    if keeper.status.get("stranded"):
        told.append("; has lost its state, and nobody has it", style="red")
    return told


def _facts(keeper: Keeper) -> list[str | Text]:
    said = keeper.status
    if said is None:
        return [""] * 7
    links: dict[str, bool] = said.get("links", {})
    down = [party for party, is_up in links.items() if not is_up]
    shown: Text | str = ""
    if links:
        up = f"{len(links) - len(down)} of {len(links)}"
        shown = Text(f"{up}, not {', '.join(down)}", style="red") if down else up
    return [
        count_text(said, "stable_rows"),
        count_text(said, "tentative_rows"),
        seconds_text(said, "lag_seconds"),
        seconds_text(said, "delay_new_seconds"),
        count_text(said, "buckets_buffered"),
        seconds_text(said, "batch_seconds"),
        shown,
    ]


def count_text(said: Any, name: str) -> str:
    """One of the counts that a party tells; nothing if it does not."""
    return f"{said[name]:,}" if name in said else ""


def seconds_text(said: Any, name: str) -> str:
    """The same of a time."""
    if name not in said:
        return ""
    # Before its first bucket a stream ends in 1970.
    return f"{said[name]:.1f} s" if said[name] < 1e8 else ""


def _print_changes(supervisor: Supervisor, console: Console, seen: dict[str, str]) -> None:
    for name, keeper in supervisor.keepers.items():
        state = state_text(keeper).plain
        kind = "ended" if keeper.process is None else state
        if seen.get(name) != kind:
            seen[name] = kind
            console.print(f"{name}: {state}", soft_wrap=True, highlight=False, markup=False)
