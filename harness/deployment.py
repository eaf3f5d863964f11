"""A topology that really runs, to be broken: sources and a client here, replicas as processes.

Every link goes through a proxy that can cut it.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from pathlib import Path
from typing import Any, Self

from harness.ports import free_port
from harness.processes import Family, spark_environment
from harness.streams import (
    SCHEMA,
    WINDOW,
    Onlookers,
    Row,
    bring,
    difference,
    final_rows,
    rows_of,
    windows_of,
)
from harness.waiting import wait_for
from holdfast.errors import HoldfastError, RefusedError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.topology import Topology
from holdfast.runtime.loop import Clock
from holdfast.transport.client import act, fetch
from holdfast.transport.proxy import Proxy

__all__ = ["Deployment", "EndedError"]

CLIENT = "client"
MOST_ENDS = 2
"""So often a replica may end by itself."""
TRIES = 5
"""So often a replica is asked for its log."""


class EndedError(AssertionError):
    """A replica that ends whenever it is started."""

    def __init__(self, name: str, tail: str) -> None:
        super().__init__(f"{name} has ended again and again: {tail}")
        self.name = name


class Deployment:
    """Streams a, b, c -> `clean` (filter and calculation) -> `sums` (window), or a longer chain of
    filters; each stage with its replicas. A context manager."""

    at_once = 7
    """Rows that each source is brought, ten times a second."""
    sensors = 3
    """Those of a source."""

    def __init__(
        self,
        folder: Path,
        *,
        bucket: str = "2s",
        max_delay: str = "8s",
        replicas: int = 2,
        chain: int = 1,
        window: bool = True,
        sources: Sequence[str] = ("a", "b", "c"),
        masters: Mapping[str, str] | None = None,
        voter: str | None = None,
        liars: Mapping[str, str] | None = None,
        shared: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`masters`: where replicas have their executors that do not have them in themselves.
        `voter`: settings of the gate of the last stage, which then has one replica and compares
        those before it. `liars`: replicas that lie, and how. `shared`: the replicas of `clean`
        share its work. `environment`: of the replicas, besides what Spark needs."""
        self.folder = folder
        self.shared = shared
        self.voter = voter
        self.liars = dict(liars or {})
        self._masters = masters or {}
        self._environment = dict(environment or {})
        self.sources_names = tuple(sources)
        stages = [f"clean{at}" if at else "clean" for at in range(chain)]
        if window:
            stages.append("sums")
        self.stages = tuple(stages)
        self.last = stages[-1]
        text = self._write(bucket, max_delay, replicas)
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "deployment.toml"
        self.file.write_text(text)
        self.topology = Topology.read(self.file)
        self.parties = self.topology.parties()
        self.replicas = [name for name in self.parties if "/" in name]
        self.max_delay = self.topology.stages[self.stages[0]].max_delay / 1e6
        self.proxies: dict[tuple[str, str], Proxy] = {}
        """By who calls and who is called."""
        self.processes: dict[str, Family] = {}
        self.sources: dict[str, SourceParty] = {}
        self.silent: set[str] = set()
        """Sources to which no rows are brought."""
        self.stuck: dict[str, int] = {}
        """Sources whose clock stands, and at what: they give no boundaries."""
        self.told: list[tuple[float, Told]] = []
        """What the client was told, and when."""
        self.ended: list[str] = []
        """Replicas that ended by themselves."""
        self._onlookers = Onlookers()
        self._next_value = 0
        self._logged: dict[str, list[Told]] = {name: [] for name in sources}
        """What the sources have published, as somebody saw it whom no fault touches."""

    def _write(self, bucket: str, max_delay: str, replicas: int) -> str:
        lines = ['name = "deployment"', f'bucket = "{bucket}"']
        for name in self.sources_names:
            lines += [
                f"[streams.{name}]",
                'source = "push"',
                f'address = "127.0.0.1:{free_port()}"',
                'schema = { sensor = "string", value = "bigint" }',
            ]
        inputs = list(self.sources_names)
        for stage in self.stages:
            votes = self.voter is not None and stage == self.last
            count = 1 if votes else replicas
            addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
            gate = str(self.voter) if votes else f'max_delay = "{max_delay}"'
            if self.shared and stage == self.stages[0]:
                gate = 'policy = "share"'
            lines += [
                f"[stages.{stage}]",
                f"inputs = {json.dumps(inputs)}",
                f"replicas = {json.dumps(addresses)}",
                gate,
                "shards = 1",
            ]
            if stage == "sums":
                lines.append(f"steps = [{WINDOW}]")
            else:
                lines.append(
                    'steps = [{ where = "value % 5 <> 0" }, '
                    '{ select = ["sensor", "value * 2 AS value"] }]'
                )
            inputs = [stage]
        lines += [f"[sinks.{CLIENT}]", f'stream = "{self.last}"', 'sink = "console"']
        return "\n".join(lines)

    # Starting and stopping

    def start(self) -> None:
        for name in self.sources_names:
            hands = partial(self._clock, name, Clock())
            clock = Clock(wall=hands, steady=hands)
            self.sources[name] = SourceParty(self.topology, name, SCHEMA, clock=clock)
        for name in self.replicas:
            self.start_replica(name)
        self._onlookers.repeat(0.1, self._bring)
        publishers = {
            party: self._route(CLIENT, party) for party in self.topology.publishers(self.last)
        }
        seats = self.topology.seats(self.last)
        reader = Reader(self.last, publishers, me=CLIENT, seats=seats)
        self._onlookers.read_timed(reader, self.told)
        for name, logged in self._logged.items():
            address = self.parties[name].address
            assert address is not None
            self._onlookers.read(Reader(name, {name: address}, me="witness"), logged.append)

    def start_replica(self, name: str, *, empty: bool = False) -> None:
        """Start a replica, on its disk as it was or on an empty one."""
        if empty:
            shutil.rmtree(self.topology.state_folder / name, ignore_errors=True)
        stage = self.topology.stages[name.partition("/")[0]]
        others = [p for stream in stage.inputs for p in self.topology.publishers(stream)]
        others += self.topology.peers(name)
        command = [sys.executable, "-m", "holdfast", "node", str(self.file), name]
        if name in self.liars:
            lie = self.liars[name]
            command = [sys.executable, "-m", "harness.lies", lie, str(self.file), name]
        command += ["--master", self._masters.get(name, "local[1]")]
        for other in others:
            command += ["--route", f"{other}={self._route(name, other)}"]
        self.processes[name] = Family(
            command,
            self.folder,
            spark_environment(self.folder) | self._environment,
            log=f"{name.replace('/', '-')}.log",
        )

    def _route(self, caller: str, called: str) -> str:
        proxy = self.proxies.get((caller, called))
        if proxy is None:
            address = self.parties[called].address
            assert address is not None
            host, _, port = address.rpartition(":")
            proxy = self.proxies[caller, called] = Proxy((host, int(port)))
        return f"127.0.0.1:{proxy.port}"

    def kill(self, name: str) -> None:
        """kill -9, of the node and its Spark."""
        self.processes.pop(name).kill()

    def kill_driver(self, name: str) -> None:
        """kill -9 of a node's Spark while it is in a batch."""
        checkpoint = self.topology.state_folder / name / "checkpoint"
        wait_for(f"{name} to be in a batch", lambda: _is_in_batch(checkpoint), 60, 0.01)
        (driver,) = self.processes[name].members("org.apache.spark.deploy.SparkSubmit")
        driver.kill()

    def freeze(self, name: str) -> None:
        self.processes[name].send(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.processes[name].send(signal.SIGCONT)

    def stop_clock(self, source: str) -> None:
        self.stuck[source] = self.sources[source].clock()

    def _clock(self, source: str, clock: Clock) -> int:
        return self.stuck.get(source) or clock()

    def links(self, readers: str, publishers: str) -> list[Proxy]:
        """Those from all replicas of a stage, or one, to all publishers of a stream."""
        return [
            proxy
            for (caller, called), proxy in self.proxies.items()
            if readers in (caller, caller.partition("/")[0])
            and publishers in (called, called.partition("/")[0])
        ]

    def close(self) -> None:
        self._onlookers.close()
        for process in self.processes.values():
            process.kill()
        for source in self.sources.values():
            source.close()
        for proxy in self.proxies.values():
            proxy.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What flows

    def _bring(self) -> None:
        for name, source in self.sources.items():
            if name not in self.silent:
                values = range(self._next_value, self._next_value + self.at_once)
                bring(source, name, values, self.sensors)
                self._next_value += self.at_once

    # Looking

    def status(self, name: str) -> dict[str, Any] | None:
        address = self.parties[name].address
        assert address is not None
        try:
            said: dict[str, Any] = json.loads(act(address, None, "status", b"", timeout=3))
        except (HoldfastError, ValueError):
            return None
        return said

    def wait_until_ready(self, seconds: float = 300) -> None:
        """Until the client gets final rows and all replicas are stable."""
        wait_for("all replicas to be stable", self.all_stable, seconds, 1.0)
        wait_for("final rows at the client", lambda: self.boundary > 10**15, seconds)

    def all_stable(self) -> bool:
        self._start_ended()
        said = [self.status(name) for name in self.replicas if name in self.processes]
        return all(each is not None and each["state"] == "STABLE" for each in said)

    def _start_ended(self) -> None:
        """As `holdfast run` would: on a starved machine Spark may fail to start its workers."""
        for name, process in list(self.processes.items()):
            if process.status is None:
                continue
            self.ended.append(name)
            if self.ended.count(name) > MOST_ENDS:
                raise EndedError(name, process.tail())
            process.kill()
            self.start_replica(name)

    @property
    def boundary(self) -> int:
        """Up to where the client has final rows."""
        for _, told in reversed(self.told):
            if told.kind is Kind.INSERT:
                return told.boundary
        return 0

    def kinds(self, since: int = 0) -> list[Kind]:
        """What the client was told, from the `since`-th thing on."""
        return [told.kind for _, told in self.told[since:]]

    def delays(self, since: int = 0) -> Iterator[float]:
        """How long after its end the first new bucket of each piece was shown, as final or
        tentative."""
        shown = 0
        bucket = int(self.topology.bucket)
        for at, (moment, told) in enumerate(self.told):
            if told.kind in (Kind.INSERT, Kind.TENTATIVE) and told.boundary > shown:
                if at >= since and shown > 10**15:
                    yield moment - min(shown + bucket, told.boundary) / 1e6
                shown = told.boundary

    # What is right

    def client_rows(self) -> list[Row]:
        """The final rows that the client has, in order."""
        return final_rows(list(self.told))

    def folds_to_final(self) -> bool:
        """Whether applying every UNDO leaves the final rows, and then perhaps some tentative."""
        told = list(self.told)
        rows: list[tuple[Kind, list[Row]]] = []
        for _, each in told:
            if each.kind is Kind.UNDO:
                while rows and rows[-1][0] is Kind.TENTATIVE:
                    rows.pop()
            elif each.rows is not None:
                rows.append((each.kind, rows_of(each.rows)))
        folded = [row for _, some in rows for row in some]
        final = final_rows(told)
        return folded[: len(final)] == final

    def replica_rows(self, name: str) -> tuple[int, int, list[Row]]:
        """From where to where a replica keeps its log, and the rows in it."""
        address = self.parties[name].address
        assert address is not None
        for tries_left in reversed(range(TRIES)):
            said = self.status(name)
            assert said is not None, f"{name} does not answer"
            start, end = said["start"], said["boundary"]
            streams = said.get("seats") or [name.partition("/")[0]]
            try:
                parts = [
                    rows_of(fetch(address, None, LogTicket(stream, start, end).write()))
                    for stream in streams
                ]
                break
            except RefusedError:
                # It may just have let go of its oldest bucket.
                if not tries_left:
                    raise
        # A bucket is of one seat.
        bucket = int(self.topology.bucket)
        rows = list(merge(*parts, key=lambda row: row[0] // bucket))
        return start, end, rows

    def seats(self, name: str) -> list[str]:
        """Where a replica sits that shares its work."""
        return sorted((self.status(name) or {}).get("seats", ()))

    def source_rows(self, end: int) -> list[Row]:
        """All rows that the sources have logged before a boundary: time, sensor, value; those of
        one time in the order of the sources."""

        def has_come() -> bool:
            return all(logged and logged[-1].boundary >= end for logged in self._logged.values())

        wait_for("the witness of the sources", has_come, 20)
        rows = [
            (time, which, sensor, value)
            for which, logged in enumerate(self._logged.values())
            for told in list(logged)
            if told.rows is not None
            for time, sensor, value in rows_of(told.rows)
            if time < end
        ]
        rows.sort(key=lambda row: (row[0], row[1]))
        return [(time, sensor, value) for time, _, sensor, value in rows]

    def right_rows(self, stage: str, end: int) -> list[Row]:
        """What a stage should have published before the boundary `end`, by the sources' logs."""
        rows = self.source_rows(end)
        for name in self.stages:
            rows = windows_of(rows, end) if name == "sums" else _cleaned(rows)
            if name == stage:
                break
        return [row for row in rows if row[0] < end]

    def check(self, *, all_replicas: bool = True) -> None:
        """The client's and every replica's final rows are those of a run without any failure."""
        end = self.boundary
        right = self.right_rows(self.last, end)
        rows = [row for row in self.client_rows() if row[0] < end]
        assert rows == right, difference("the client", rows, right)
        for name in self.replicas if all_replicas else []:
            if name in self.processes:
                start, end, rows = self.replica_rows(name)
                right = self.right_rows(name.partition("/")[0], end)
                is_its = self._share_of(name)
                kept = [row for row in right if row[0] >= start and is_its(row[0])]
                assert rows == kept, difference(name, rows, kept)

    def _share_of(self, name: str) -> Callable[[int], bool]:
        """Whether rows of a time are the replica's: all, or those of the seats it sits in."""
        seats, own = list(self.topology.seats(name.partition("/")[0])), self.seats(name)
        bucket = int(self.topology.bucket)
        return lambda time: not seats or seats[time // bucket % len(seats)] in own


def _is_in_batch(checkpoint: Path) -> bool:
    """Whether a batch is planned and not done."""

    def newest(of: str) -> int:
        numbers = [path.name for path in (checkpoint / of).glob("*")]
        return max((int(number) for number in numbers if number.isdigit()), default=-1)

    return newest("offsets") > newest("commits")


def _cleaned(rows: Sequence[Row]) -> list[Row]:
    return [(time, sensor, value * 2) for time, sensor, value in rows if value % 5 != 0]
