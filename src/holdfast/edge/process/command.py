"""The commands `holdfast edge ...`, imported only when one of them runs."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from holdfast.errors import InvalidArgumentError

edge = typer.Typer(
    name="edge",
    help="Windows near the sensors that survive the failure of nodes there.",
    no_args_is_help=True,
)
query = typer.Typer(name="query", help="Queries of an edge that runs.", no_args_is_help=True)
edge.add_typer(query)

File = Annotated[Path, typer.Argument(help="An edge, as TOML.")]
Name = Annotated[str, typer.Argument(help="The node, as the file calls it.")]
Routes = Annotated[
    list[str] | None,
    typer.Option("--route", help="NODE=HOST:PORT: reach a node elsewhere than the file says."),
]
Metrics = Annotated[
    int | None, typer.Option(help="Serve figures for Prometheus on this port of 127.0.0.1.")
]


def _log() -> None:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )


def _routes(given: list[str] | None) -> dict[str, str]:
    routes = {}
    for each in given or []:
        node, sign, address = each.partition("=")
        if not sign or not node or ":" not in address:
            raise InvalidArgumentError(f"--route: {each!r} is no route; give NODE=HOST:PORT")
        routes[node] = address
    return routes


def _check_role(file: Path, name: str, role: str) -> None:
    from holdfast.edge.process.config import Layout

    found = Layout.read(file).role(name)
    if found != role:
        raise InvalidArgumentError(f"{file}: {name!r} is a {found}; run holdfast edge {found}")


@edge.command()
def check(file: File) -> None:
    """Read the file of an edge and tell all that is wrong with it."""
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.display import show_layout

    show_layout(Layout.read(file), Console())


@edge.command()
def sensor(
    file: File,
    name: Name,
    report: Annotated[
        Path | None, typer.Option(help="Write what it has done into this file, as JSON.")
    ] = None,
    route: Routes = None,
) -> None:
    """Run a sensor: simulated events, or lines on the standard input."""
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.sensor_process import run_sensor

    _log()
    _check_role(file, name, "sensor")
    run_sensor(Layout.read(file), name, report=report, routes=_routes(route))


@edge.command()
def child(
    file: File,
    name: Name,
    join: Annotated[
        str | None,
        typer.Option(
            help="HOST:PORT to listen at: join a group though the file names no such node."
        ),
    ] = None,
    group: Annotated[str, typer.Option(help="The group to join.")] = "edge",
    route: Routes = None,
    metrics: Metrics = None,
) -> None:
    """Run a child: it aggregates events, and stands in for others of its group."""
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.nodes import run_child

    _log()
    layout = Layout.read(file)
    if join is None:
        _check_role(file, name, "child")
    else:
        layout = layout.with_child(name, join, group)
    run_child(layout, name, routes=_routes(route), metrics=metrics)


@edge.command()
def intermediate(file: File, name: Name, route: Routes = None, metrics: Metrics = None) -> None:
    """Run an intermediate: it merges what those below it send."""
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.nodes import run_intermediate

    _log()
    _check_role(file, name, "intermediate")
    run_intermediate(Layout.read(file), name, routes=_routes(route), metrics=metrics)


@edge.command()
def root(
    file: File,
    name: Annotated[str, typer.Argument(help="Always root.", hidden=True)] = "root",
    metrics: Metrics = None,
) -> None:
    """Run the root by itself. In a topology it is a stream with source = "edge"."""
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.nodes import run_root

    _log()
    _check_role(file, name, "root")
    run_root(Layout.read(file), metrics=metrics)


@edge.command()
def run(
    file: File,
    without_root: Annotated[
        bool,
        typer.Option("--without-root", help="The root runs elsewhere, such as in a topology."),
    ] = False,
) -> None:
    """Run all nodes of a file on this machine, and show how they are."""
    from holdfast.edge.process.display import run_edge

    run_edge(file, Console(), without_root=without_root)


@edge.command()
def status(
    file: File,
    node: Annotated[
        str | None, typer.Argument(help="All that this node says of itself, as JSON.")
    ] = None,
) -> None:
    """Show how the nodes of an edge are that runs, and what they have refused."""
    import json

    from holdfast.edge.process.client import Client
    from holdfast.edge.process.config import Layout
    from holdfast.edge.process.display import show_status

    layout = Layout.read(file)
    if node is not None and layout.role(node) == "sensor":
        raise InvalidArgumentError(
            f"node: {node!r} is a sensor, and sensors are not asked; see its log and its --report"
        )
    with Client(layout) as client:
        if node is None:
            show_status(client, layout, Console())
        else:
            print(json.dumps(client.ask(node, "status"), indent=2))


@edge.command()
def dismiss(
    file: File, sensor: Annotated[str, typer.Argument(help="A sensor that is gone.")]
) -> None:
    """Have no window wait any longer for a sensor that will not come back."""
    from holdfast.edge.process.client import Client
    from holdfast.edge.process.config import Layout

    with Client(Layout.read(file)) as client:
        client.ask("root", "dismiss", {"sensor": sensor})
    print(f"{sensor}: nobody waits for it")


@edge.command()
def demo() -> None:
    """6 sensors, 8 children, a root: kill three children, and see that the result is exact."""
    import signal

    from holdfast.edge.process.demo import run_demo

    # As Ctrl-C does: no process is left behind.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    if not run_demo(Console()):
        raise typer.Exit(1)


@query.command("add")
def query_add(
    file: File,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    aggregate: Annotated[str, typer.Argument(help="count, sum, mean, min, max, range ...")],
    size: Annotated[str, typer.Argument(help="How much time a window covers, as 10s.")],
    slide: Annotated[str | None, typer.Option(help="How often there is one.")] = None,
    keyed: Annotated[bool, typer.Option("--keyed", help="A result for each key.")] = False,
    k: Annotated[
        int | None, typer.Option("--k", help="top_k: how many; quantiles: how exact.")
    ] = None,
    lg_k: Annotated[int | None, typer.Option("--lg-k", help="distinct: how exact.")] = None,
    shares: Annotated[str | None, typer.Option(help="quantiles: which ones, as 0.5,0.99.")] = None,
) -> None:
    """Ask something more of an edge that runs."""
    from dataclasses import replace

    from holdfast.config.settings import Named
    from holdfast.edge.process.client import Client
    from holdfast.edge.process.config import Layout, Query

    layout = Layout.read(file)
    body: dict[str, Any] = {
        "aggregate": aggregate,
        "size": size,
        "slide": slide,
        "keyed": keyed,
        "k": k,
        "lg_k": lg_k,
        "shares": _shares(shares),
    }
    # The checks of a file go for it too.
    replace(layout, queries=Named({**layout.queries, name: Query(**body)}))
    with Client(layout) as client:
        client.ask("root", "add", {"name": name, **body})
    print(f"{name}: registered")


def _shares(given: str | None) -> list[float] | None:
    try:
        return None if given is None else [float(each) for each in given.split(",")]
    except ValueError:
        raise InvalidArgumentError(
            f"--shares: {given!r} is no list of numbers; give them as 0.5,0.99"
        ) from None


@query.command("remove")
def query_remove(
    file: File, name: Annotated[str, typer.Argument(help="What it is called.")]
) -> None:
    """Ask something no longer: its windows end, and nothing of it is remembered."""
    from holdfast.edge.process.client import Client
    from holdfast.edge.process.config import Layout

    with Client(Layout.read(file)) as client:
        said = client.ask("root", "remove", {"name": name})
    print(f"{name}: removed")
    if said["in_file"]:
        print(f"{name}: is in {file} too; take it out, or it is back when the root starts again")


@query.command("list")
def query_list(file: File) -> None:
    """Show the queries that an edge works on."""
    from rich.table import Table

    from holdfast.config.durations import Span
    from holdfast.edge.process.client import Client
    from holdfast.edge.process.config import Layout

    with Client(Layout.read(file)) as client:
        found = client.ask("root", "queries")
    table = Table("query", "aggregate", "size", "slide", "keyed")
    for each in found:
        table.add_row(
            each["id"],
            each["aggregate"],
            str(Span(each["size"])),
            str(Span(each["slide"])),
            "yes" if each["keyed"] else "no",
        )
    Console().print(table)
