"""Participants that really run, as processes, with stages on Spark; sources and a client are here.

Each stage has a replica for each participant that may run it, and a spare one that nobody runs
before all is over: it then computes from the sources' logs what a run without any move gives.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from harness.ports import free_port
from harness.processes import Family, spark_environment
from harness.streams import (
    SCHEMA,
    WINDOW,
    Onlookers,
    Row,
    bring,
    difference,
    rows_of,
    windows_of,
)
from harness.waiting import wait_for
from holdfast.errors import HoldfastError
from holdfast.federation.machine import Ledger
from holdfast.federation.process.participant import STATUS
from holdfast.federation.process.records import LEDGER, read_ledger
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.topology import Topology
from holdfast.storage.signing import Signer
from holdfast.transport.client import act, fetch

__all__ = ["Federated", "Utility"]

PRICE: Final = 1.0
TICK: Final = 0.1


@dataclass(frozen=True)
class Utility:
    """A participant: the stages it owns, those of others that it can run, and what a load costs it:
    `scale` times its square. With 1 a unit costs more than the price when what is there before and
    after it together is more than 1."""

    owns: Sequence[str] = ()
    hosts: Sequence[str] = ()
    scale: float = 1.0


@dataclass
class Federated:
    """A context manager: streams and client run from the beginning, participants as they `start`.
    `follows`: stages that read others instead of a source, and double their totals."""

    folder: Path
    utilities: Mapping[str, Utility]
    follows: Mapping[str, str] = field(default_factory=dict)
    duration: str = "15s"
    bucket: str = "2s"
    max_delay: str = "60s"
    """Of gates: what a starved machine does to them is not what is looked for."""
    patience: str = "60s"
    full: int = 100
    """Rows a second that take all of a participant's cpu."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.contracts: list[tuple[str, str]] = []
        """Buyer and seller of each."""
        self.rates: dict[str, float] = {}
        """Rows a second, by stage."""
        self.told: dict[str, list[tuple[float, Told]]] = {}
        """What the client was told, and when, by stage."""
        self.processes: dict[str, Family] = {}
        self.sources: dict[str, SourceParty] = {}
        self._signers = {name: Signer.make() for name in self.utilities}
        self._ports = {name: free_port() for name in self.utilities}
        self._homes = {stage: name for name, each in self.utilities.items() for stage in each.owns}
        self._logged: dict[str, list[Told]] = {}
        self._onlookers = Onlookers()
        self._next_value = 0
        self._brought = 0.0
        self._due: dict[str, float] = {}
        self.file = self.folder / "grid.toml"
        self.file.write_text(self._write_topology())
        self.topology = Topology.read(self.file)
        self.parties = self.topology.parties()
        for name in self.utilities:
            key = self.folder / f"{name}.key"
            key.write_text(self._signers[name].secret.hex())
            key.chmod(0o600)

    # Files

    def replicas(self, stage: str) -> list[str]:
        """Who can run it, in the order of its replicas: first whose it is."""
        home = self._homes[stage]
        return [home, *(name for name, each in self.utilities.items() if stage in each.hosts)]

    def spare(self, stage: str) -> str:
        return f"{stage}/{len(self.replicas(stage)) + 1}"

    def _write_topology(self) -> str:
        lines = ['name = "grid"', f'bucket = "{self.bucket}"']
        for stage in self._homes:
            if stage not in self.follows:
                lines += [
                    f"[streams.{stage}-in]",
                    'source = "push"',
                    f'address = "127.0.0.1:{free_port()}"',
                    'schema = { sensor = "string", value = "bigint" }',
                ]
            replicas = [f"127.0.0.1:{free_port()}" for _ in range(len(self.replicas(stage)) + 1)]
            doubled = '{ select = ["sensor", "total * 2 AS twice"] }'
            lines += [
                f"[stages.{stage}]",
                f'inputs = ["{self.follows.get(stage, f"{stage}-in")}"]',
                f"replicas = {json.dumps(replicas)}",
                f'max_delay = "{self.max_delay}"',
                "shards = 1",
                f"steps = [{doubled if stage in self.follows else WINDOW}]",
            ]
        for stage in self._homes:
            lines += [f"[sinks.client-{stage}]", f'stream = "{stage}"', 'sink = "console"']
        return "\n".join(lines)

    def _write(self, name: str) -> None:
        utility = self.utilities[name]
        lines = [
            f'address = "127.0.0.1:{self._ports[name]}"',
            f'key = "{name}.key"',
            f'folder = "{name}"',
            f'topology = "{self.file.name}"',
            "capacity = 0.8",
            f"rows_per_second = {self.full}",
            'window = "5s"',
            'period = "2s"',
            f'patience = "{self.patience}"',
            'prepare = "10m"',
            f'[cpu]\ncurve = "power"\nscale = {utility.scale}',
        ]
        partners = sorted({*sum((pair for pair in self.contracts if name in pair), ())} - {name})
        for partner in partners:
            lines += [
                f"[partners.{partner}]",
                f'address = "127.0.0.1:{self._ports[partner]}"',
                f'public = "{self._signers[partner].public.hex()}"',
            ]
            for side, pair in (("buys", (name, partner)), ("sells", (partner, name))):
                if pair in self.contracts:
                    lines += [
                        f"[{side}.{partner}]",
                        f"price = {PRICE}",
                        f'duration = "{self.duration}"',
                    ]
        for stage in (*utility.owns, *utility.hosts):
            lines += [
                f"[tasks.{stage}]",
                f'replica = "{stage}/{self.replicas(stage).index(name) + 1}"',
                f"own = {'true' if stage in utility.owns else 'false'}",
            ]
        unfinished = self.folder / f"{name}.unfinished"
        unfinished.write_text("\n".join(lines) + "\n")
        # Whoever reads it while it runs sees the one or the other.
        unfinished.rename(self.folder / f"{name}.toml")

    # Participants

    def agree(self, *pairs: tuple[str, str]) -> None:
        """Have new contracts written into the files of both, whether they run or not."""
        self.contracts += pairs
        for name in {name for pair in pairs for name in pair}:
            self._write(name)

    def start(self, *names: str) -> None:
        """Start participants, on their disks as they were."""
        for name in names:
            if not (self.folder / f"{name}.toml").exists():
                self._write(name)
            self._start(name, "participant", f"{name}.toml")

    def start_replica(self, name: str) -> None:
        """Start one by hand, whatever load managers may think of it."""
        self._start(name, "node", str(self.file), name)

    def _start(self, name: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "holdfast", *arguments, "--master", "local[1]"]
        environment = spark_environment(self.folder)
        log = f"{name.replace('/', '-')}.log"
        self.processes[name] = Family(command, self.folder, environment, log=log)

    def kill(self, name: str) -> None:
        """kill -9 of the load manager; its replicas do not outlive it."""
        self.processes.pop(name).kill()

    def end(self) -> None:
        """Let all participants end as they do when they are asked to."""
        families = list(self.processes.values())
        self.processes.clear()
        for family in families:
            family.terminate()
        for family in families:
            try:
                family.wait_gone(60)
            finally:
                family.kill()

    def status(self, name: str) -> dict[str, Any]:
        """What a participant's load manager has written for its operator."""
        with suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.folder / name / STATUS).read_bytes())
            return found
        return {}

    def runs(self, stage: str) -> list[str]:
        """Those who say that it is for them to run it."""
        return [name for name in self.processes if stage in self.status(name).get("runs", ())]

    def ledger(self, name: str) -> Ledger:
        return read_ledger(self.folder / name / LEDGER)

    def told_at(self, name: str, words: str) -> list[datetime]:
        """When a participant has said such a thing."""
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        moments = [line.partition(" INFO ")[0] for line in lines if words in line]
        return [datetime.strptime(each, "%Y-%m-%d %H:%M:%S,%f") for each in moments]

    # Streams and client

    def __enter__(self) -> Self:
        for stage in self._homes:
            if stage not in self.follows:
                source = SourceParty(self.topology, f"{stage}-in", SCHEMA)
                self.sources[stage] = source
                address = self.parties[f"{stage}-in"].address
                assert address is not None
                self._logged[stage] = []
                reader = Reader(f"{stage}-in", {f"{stage}-in": address}, me="witness")
                self._onlookers.read(reader, self._logged[stage].append)
            self.told[stage] = []
            publishers = {
                party: str(self.parties[party].address) for party in self.topology.publishers(stage)
            }
            reader = Reader(stage, publishers, me=f"client-{stage}")
            self._onlookers.read_timed(reader, self.told[stage])
        self._due = dict.fromkeys(self.sources, 0.0)
        self._brought = time.monotonic()
        self._onlookers.repeat(TICK, self._bring)
        return self

    def __exit__(self, *_: object) -> None:
        self._onlookers.close()
        for family in self.processes.values():
            family.kill()
        for source in self.sources.values():
            source.close()

    def _bring(self) -> None:
        """As many rows as are due by the clock, so that a slow machine has the same rates."""
        now = time.monotonic()
        for stage, source in self.sources.items():
            self._due[stage] += self.rates.get(stage, 0) * (now - self._brought)
            count = int(self._due[stage])
            if count:
                self._due[stage] -= count
                bring(source, stage, range(self._next_value, self._next_value + count))
                self._next_value += count
        self._brought = now

    # What has come, and what is right

    def boundary(self, stage: str) -> int:
        """Up to where the client's rows are final."""
        ends = [told.boundary for _, told in list(self.told[stage]) if told.kind is Kind.INSERT]
        return max(ends, default=0)

    def has_rows(self, *stages: str) -> bool:
        return all(self.boundary(stage) > 10**15 for stage in stages or self._homes)

    def delays(self, stage: str, since: float = 0) -> list[tuple[float, float, int]]:
        """When each piece came after this time, how late its end was then, and up to where it is
        final: all in seconds but the last."""
        return [
            (moment, moment - told.boundary / 1e6, told.boundary)
            for moment, told in list(self.told[stage])
            if told.kind is Kind.INSERT and moment >= since
        ]

    def is_answering(self, replica: str) -> bool:
        try:
            act(str(self.parties[replica].address), None, "status", b"", timeout=2)
        except HoldfastError:
            return False
        return True

    def kinds(self, stage: str) -> set[Kind]:
        return {told.kind for _, told in list(self.told[stage])}

    def final(self, stage: str) -> pa.Table:
        """The client's final rows, in the order in which they came."""
        tables = [
            told.rows
            for _, told in list(self.told[stage])
            if told.kind is Kind.INSERT and told.rows is not None
        ]
        return pa.concat_tables(tables).combine_chunks()

    def right_rows(self, stage: str, end: int) -> list[Row]:
        """What the stage should have published before `end`, by the sources' logs."""
        if stage in self.follows:
            before = self.right_rows(self.follows[stage], end)
            return [(moment, sensor, 2 * total) for moment, sensor, _, _, _, total in before]
        logged = self._logged[stage]
        wait_for("the witness", lambda: logged and logged[-1].boundary >= end, 20)
        rows = [row for told in list(logged) if told.rows is not None for row in rows_of(told.rows)]
        return [row for row in windows_of([r for r in rows if r[0] < end], end) if row[0] < end]

    def check(self, *, planned: bool = True) -> None:
        """Nothing is lost or doubled, and every final row is right; if all moves were planned,
        nothing was ever tentative."""
        for stage in self._homes:
            if planned:
                assert Kind.TENTATIVE not in self.kinds(stage), f"{stage}: tentative rows"
            end = self.boundary(stage)
            rows = [row for row in rows_of(self.final(stage)) if row[0] < end]
            right = self.right_rows(stage, end)
            assert rows == right, difference(stage, rows, right)

    def check_undisturbed(self, *stages: str) -> None:
        """To be called at the end: the client's rows are to the byte those of a run in which the
        stage was never moved."""
        self.end()
        with self._spares(stages):
            for stage in stages:
                self._check_bytes(stage)

    @contextmanager
    def _spares(self, stages: Sequence[str]) -> Iterator[None]:
        for stage in stages:
            self.start_replica(self.spare(stage))
        try:
            yield
        finally:
            for stage in stages:
                self.processes.pop(self.spare(stage)).kill()

    def _check_bytes(self, stage: str) -> None:
        address = str(self.parties[self.spare(stage)].address)
        mine = self.final(stage)
        moments = mine.column(0).cast(pa.int64())
        first, last = moments[0].as_py(), moments[-1].as_py()

        def whole() -> pa.Table | None:
            """Once it has come so far, and lets others read."""
            with suppress(HoldfastError, ValueError):
                boundary = int(json.loads(act(address, None, "status", b"", timeout=3))["boundary"])
                if boundary > last:
                    return fetch(address, None, LogTicket(stage, 0, boundary).write())
            return None

        table = wait_for(f"the run of {stage} that nobody disturbs", whole, 180, 0.5)
        times = table.column(0).cast(pa.int64()).to_pylist()
        kept = [at for at, moment in enumerate(times) if first <= moment <= last]
        undisturbed = table.slice(kept[0], len(kept)).combine_chunks()
        assert times[0] == first, f"{stage}: begins at {first}, undisturbed at {times[0]}"
        assert _bytes(mine) == _bytes(undisturbed), f"{stage}: other bytes than undisturbed"


def _bytes(table: pa.Table) -> bytes:
    """As they travel, without any trace of how they are laid out in memory."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in pa.Table.from_pylist(table.to_pylist(), schema=table.schema).to_batches():
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())
