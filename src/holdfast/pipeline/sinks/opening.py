"""Driver of a sink, made from the topology."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rich.console import Console as Screen

from holdfast.pipeline.process.reader import Reader
from holdfast.pipeline.process.replica_config import comparison_of
from holdfast.pipeline.process.source import Driver
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sinks.outlets import (
    CallbackListener,
    ConsoleListener,
    Listener,
    MakeReader,
    Note,
    Outlet,
    Store,
    listen,
    store_in,
)
from holdfast.pipeline.topology import Callback, Console, Delta, Parquet, SqlTable, Topology


def open_sink(
    topology: Topology,
    name: str,
    make_reader: MakeReader | None = None,
    *,
    routes: Mapping[str, str] | None = None,
    console: Screen | None = None,
) -> Driver[Outlet]:
    """What takes a stream to the outside: `start` it, `stop` it. `make_reader`: if the stream is
    to be read otherwise than as the topology says. `routes`: addresses of parties that are reached
    elsewhere. `console`: where a console sink prints."""
    sink = topology.sinks[name]
    output = sink.sink
    outlet = Outlet(name, make_reader or partial(reader_of, topology, name, routes=routes))
    if isinstance(output, Parquet | Delta | SqlTable):
        return Driver("sink", name, outlet, partial(store_in, _store(topology, name)))
    opener = _listener(topology, name, console)
    return Driver("sink", name, outlet, partial(listen, opener, sink.tentative))


def reader_of(
    topology: Topology,
    name: str,
    position: int,
    tentative: bool,
    *,
    routes: Mapping[str, str] | None = None,
) -> Reader:
    """A reader for a sink: what it has not acknowledged is kept."""
    sink = topology.sinks[name]
    return open_reader(
        topology,
        sink.stream,
        me=name,
        position=position,
        tentative=tentative,
        acknowledges=True,
        routes=routes,
        comparison=comparison_of(sink),
    )


def _store(topology: Topology, name: str) -> Callable[[], Store]:
    output = topology.sinks[name].sink
    application = f"holdfast/{topology.name}/{name}"
    place = f"sinks.{name}"
    match output:
        case Parquet():
            from holdfast.pipeline.sinks.parquet import ParquetStore

            return partial(ParquetStore, topology.path(output.path))
        case Delta():
            from holdfast.pipeline.sinks.delta import DeltaStore

            return partial(DeltaStore, topology.path(output.path), application, place)
        case SqlTable():
            from holdfast.pipeline.sinks.sql import SqlStore

            return partial(
                SqlStore,
                _database(topology, output.url),
                output.table,
                output.keys,
                size=int(topology.bucket),
                application=application,
                place=place,
            )
    raise AssertionError(output)


def _database(topology: Topology, url: str) -> str:
    """Files of SQLite lie beside the topology, wherever the process was started."""
    scheme, _, path = url.partition(":///")
    if scheme.partition("+")[0] != "sqlite" or not path or path.startswith(("/", ":", "file:")):
        return url
    return f"{scheme}:///{topology.path(path)}"


def _listener(topology: Topology, name: str, console: Screen | None) -> Callable[[], Listener]:
    sink = topology.sinks[name]
    output = sink.sink
    note = topology.state_folder / name / "position"
    match output:
        case Console():
            return lambda: ConsoleListener(Note(note), console or Screen())
        case Callback():
            from holdfast.pipeline.stages.steps import load_function

            place = f"sinks.{name}"
            function: Any = load_function(place, output.function, str(topology.home))
            return lambda: CallbackListener(Note(note), function, tentative=sink.tentative)
    raise AssertionError(output)
