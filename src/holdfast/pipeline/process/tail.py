"""Streams for people and programs: `holdfast tail` and `holdfast.read_stream`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from holdfast.errors import InvalidArgumentError, UnreachableError, WireError
from holdfast.pipeline.machine.tuples import STIME, Kind
from holdfast.pipeline.machine.vote_subscription import VOTING, Comparison
from holdfast.pipeline.process.fault_tracker import Verdicts
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.replica_config import addresses_of, security_of
from holdfast.pipeline.topology import Topology
from holdfast.transport.client import act
from holdfast.transport.security import Security

STYLES = {Kind.INSERT: ("final", "green"), Kind.TENTATIVE: ("tentative", "yellow")}


class Lines:
    """Prints what a reader is told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.rows = 0
        """How many were printed."""
        self.shaky = 0
        """How many of them are tentative and not withdrawn."""

    def show(self, told: Told, most: int | None = None) -> None:
        """Print it; of its rows the first `most` at most."""
        match told.kind:
            case Kind.INSERT | Kind.TENTATIVE if told.rows is not None:
                rows = told.rows if most is None else told.rows.slice(0, most)
                self._show_rows(told.kind, rows)
            case Kind.UNDO:
                self.undo(told.boundary)
            case Kind.REC_DONE:
                self._print(Text("corrected  all that was tentative", "green"))

    def undo(self, boundary: int) -> None:
        """All that is tentative is withdrawn."""
        many = "1 row is" if self.shaky == 1 else f"{self.shaky} rows are"
        self._print(Text(f"UNDO       {many} withdrawn, back to {_time(boundary)}", "bold red"))
        self.shaky = 0

    def skip(self, start: int, end: int) -> None:
        """There is nothing to show between two boundaries: it is not kept any more."""
        self._print(Text(f"gap        from {_time(start)} to {_time(end)}", "red"))

    def _show_rows(self, kind: Kind, rows: pa.Table) -> None:
        word, style = STYLES[kind]
        text = Text("\n").join(Text(f"{word:<9}  {line}", style) for line in _lines(rows))
        if len(rows):
            self._print(text)
        self.rows += len(rows)
        if kind is Kind.TENTATIVE:
            self.shaky += len(rows)

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _lines(rows: pa.Table) -> Iterator[str]:
    names = rows.schema.names
    columns = [column.to_pylist() for column in rows.columns]
    for values in zip(*columns, strict=True):
        yield "  ".join(
            _value(value) if name == STIME else f"{name}={_value(value)}"
            for name, value in zip(names, values, strict=True)
        )


def _value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return _iso(value)
        case dict():
            return "{" + ", ".join(f"{name}={_value(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return value if value.isprintable() else repr(value)
    return str(value)


def _iso(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _time(boundary: int) -> str:
    return _iso(pa.scalar(boundary, pa.timestamp("us", "UTC")).as_py())


# Readers of a topology's streams.
#
# for told in read_stream("fleet.toml", "clean", tentative=False):
#     if told.rows is not None:
#         print(told.rows.to_pandas())

BARRIER = 3_000_000
"""Microseconds for which a guest that compares publishers waits for all of them."""
PATIENCE = 3.0
"""Seconds for a publisher to say how it is."""


def read_stream(
    topology: Topology | str | Path,
    stream: str,
    *,
    position: int | str = "newest",
    tentative: bool = True,
    policy: str = "switch",
    faults: int = 1,
    routes: Mapping[str, str] | None = None,
) -> Reader:
    """Read a stream as a guest: nothing is kept for us, and what is kept no longer is skipped.

    `topology`: one, or the path of its file. `position`: `"newest"`, `"oldest"`, or a boundary
    before which all has been read. Without `tentative` only final rows are told. `policy`: with
    `"vote"`, only rows on which all replicas but `faults` agree, and never tentative ones; or
    another policy that compares replicas. `routes`: addresses of parties that are reached elsewhere
    than the topology says. Close the reader, or use it in a `with` statement."""
    if not isinstance(topology, Topology):
        topology = Topology.read(topology)
    comparison = None
    if policy != "switch":
        if topology.seats(stream):
            raise InvalidArgumentError(
                f"policy: {policy!r} compares replicas, and those of {stream} share their work; "
                "leave it out"
            )
        comparison = Comparison(policy, faults, barrier=BARRIER)
    match position:
        case "newest":
            liars = faults if policy in VOTING else 0
            position = newest_boundary(topology, stream, routes, liars=liars)
        case "oldest":
            position = 0
        case str() | bool():
            raise InvalidArgumentError(
                f"position: is {position!r}; give 'newest', 'oldest' or a boundary"
            )
    return open_reader(
        topology,
        stream,
        me=f"guest-{uuid4().hex}",
        position=position,
        tentative=tentative,
        may_skip=True,
        routes=routes,
        comparison=comparison,
    )


def open_reader(
    topology: Topology,
    stream: str,
    *,
    me: str,
    position: int,
    tentative: bool,
    may_skip: bool = False,
    acknowledges: bool = False,
    routes: Mapping[str, str] | None = None,
    comparison: Comparison | None = None,
) -> Reader:
    """A reader of all who publish the stream, with the heartbeat of its stage. `comparison`: how
    they are compared; else the best of them is read."""
    pulse: dict[str, Any] = {}
    if stream in topology.stages:
        stage = topology.stages[stream]
        pulse = {"heartbeat": int(stage.heartbeat), "missed": stage.missed}
    publishers = topology.publishers(stream)
    verdicts = None
    if comparison is not None and stream in topology.stages:
        verdicts = Verdicts(me, comparison, {stream: publishers})
    return Reader(
        stream,
        addresses_of(topology, publishers, routes),
        me=me,
        security=security_of(topology),
        tentative=tentative,
        position=position,
        may_skip=may_skip,
        acknowledges=acknowledges,
        verdicts=verdicts,
        seats=topology.seats(stream),
        size=int(topology.bucket),
        **pulse,
    )


def newest_boundary(
    topology: Topology,
    stream: str,
    routes: Mapping[str, str] | None = None,
    *,
    liars: int = 0,
) -> int:
    """Up to where the stream is final, as far as anybody who publishes it knows. `liars`: so many
    may claim anything."""
    addresses = addresses_of(topology, topology.publishers(stream), routes)
    told = statuses(stream, addresses, security_of(topology))
    seats = topology.seats(stream)
    if seats:
        return newest_of(told, seats)
    ends = sorted((int(status["boundary"]) for status in told.values()), reverse=True)
    return ends[min(liars, len(ends) - 1)]


def newest_of(told: Mapping[str, Mapping[str, Any]], seats: Iterable[str]) -> int:
    """Up to where all parts of a shared stream are final, by what its replicas say; 0 if nobody
    speaks for one of them."""
    return min(
        max((part["boundary"] for part in parts_of(told, seat)), default=0) for seat in seats
    )


def parts_of(told: Mapping[str, Mapping[str, Any]], seat: str) -> list[Mapping[str, int]]:
    """From where to where anybody has this part of a shared stream."""
    said = [status.get("seats", {}) for status in told.values()]
    return [each[seat] for each in said if seat in each]


def statuses(
    stream: str, addresses: Mapping[str, str], security: Security | None
) -> dict[str, dict[str, Any]]:
    """How those are who publish the stream and answer; an error if nobody does."""

    def ask(name: str) -> dict[str, Any] | WireError:
        try:
            return dict(json.loads(act(addresses[name], security, "status", timeout=PATIENCE)))
        except WireError as error:
            return error

    with ThreadPoolExecutor(len(addresses)) as threads:
        answers = dict(zip(addresses, threads.map(ask, addresses), strict=True))
    told = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
    if not told:
        said = "; ".join(f"{name}: {answer}" for name, answer in answers.items())
        raise UnreachableError(f"nobody who publishes {stream} answers ({said})")
    return told


LOOK = 0.5
"""Seconds between two looks for gaps when nothing comes."""


def tail(
    topology: Topology,
    stream: str,
    console: Console,
    *,
    stable: bool = False,
    start: bool = False,
    rows: int | None = None,
    policy: str = "switch",
    faults: int = 1,
    routes: Mapping[str, str] | None = None,
) -> None:
    """Until Ctrl-C. `stable`: final rows only. `start`: from the oldest row that is kept, not from
    now on. `rows`: end after so many. `policy` and `faults`: how replicas are compared, as
    `read_stream` has it. `routes`: addresses of parties that are reached elsewhere."""
    lines = Lines(console)
    position = "oldest" if start else "newest"
    try:
        with read_stream(
            topology,
            stream,
            position=position,
            tentative=not stable,
            policy=policy,
            faults=faults,
            routes=routes,
        ) as reader:
            gaps = 0
            while rows is None or lines.rows < rows:
                told = reader.next(LOOK)
                for begin, end in reader.gaps[gaps:]:
                    gaps += 1
                    # There is nothing before the oldest row.
                    if begin:
                        lines.skip(begin, end)
                if told is not None:
                    lines.show(told, None if rows is None else rows - lines.rows)
    except KeyboardInterrupt:
        console.print("ended", style="dim")
