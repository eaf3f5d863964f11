"""The pipeline that the demonstration breaks: real processes, a link that can be cut, a client.

Three sources in this process, two stages with two replicas each in processes of their own.
`failures` breaks it.
"""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from threading import Event, Thread
from typing import Final

import pyarrow as pa

from holdfast.demo.answers import Answer, Answers
from holdfast.demo.calculation import FIRST, HERE, LAST, SOURCES, make_topology, recalculate
from holdfast.demo.errors import DemoError
from holdfast.demo.interrupts import postponed
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.process.reader import Reader
from holdfast.pipeline.process.service import LogTicket
from holdfast.pipeline.process.source import Driver, SourceParty
from holdfast.pipeline.process.supervisor import Keeper, Supervisor
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sources import arrow_schema, open_source
from holdfast.pipeline.sources.inlets import Inlet
from holdfast.pipeline.topology import parse_address
from holdfast.spark.sessions import SHORT_LIVED
from holdfast.transport.client import fetch
from holdfast.transport.proxy import Proxy

__all__ = ["CUT_OFF", "Pipeline", "now"]

CUT_OFF: Final = "south"
"""The source whose links can be cut."""
EVERY: Final = 0.5
"""Seconds between two looks at the processes."""
ENDS: Final = 1
"""So often a process may end by itself: on a starved machine Spark may fail to start."""
LINES: Final = 12
"""So much of a log is told."""


def now() -> int:
    """In microseconds since 1970, as the streams have it."""
    return time.time_ns() // 1000


class Pipeline:
    """Runs from `start` on until it is closed."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.topology = make_topology(folder)
        self.answers = Answers()
        self.states: list[tuple[int, dict[str, State]]] = []
        """How the replicas were, and when."""
        self.killed: list[str] = []
        file = folder / "demo.toml"
        file.write_text(self.topology.text())
        target = parse_address(self.topology.streams[CUT_OFF].address)
        self._links = {party: Proxy(target) for party in self.topology.publishers(FIRST)}
        self.supervisor = Supervisor(
            self.topology,
            file,
            only={party.host for party in self.topology.parties().values()} - {HERE},
            options=["--master", "local[1]"],
            routes={
                party: {CUT_OFF: f"127.0.0.1:{link.port}"} for party, link in self._links.items()
            },
            environment={"JDK_JAVA_OPTIONS": SHORT_LIVED},
        )
        self._reader: Reader | None = None
        self._sources: list[tuple[SourceParty, Driver[Inlet]]] = []
        self._ending = Event()
        self._threads: list[Thread] = []
        self._log = logging.FileHandler(self.logs / "client.log", delay=True)

    @property
    def keepers(self) -> dict[str, Keeper]:
        return self.supervisor.keepers

    @property
    def replicas(self) -> list[str]:
        return [name for stage in self.topology.stages for name in self.topology.publishers(stage)]

    @property
    def logs(self) -> Path:
        """The folder with what the processes say."""
        return self.topology.state_folder / "logs"

    @property
    def read_from(self) -> str:
        """The replica that the client reads now."""
        assert self._reader is not None
        publisher = self._reader.publisher
        assert publisher is not None, "the client switches between replicas"
        return publisher

    # Running

    def start(self) -> None:
        """Start the replicas. Returns at once; Spark needs a minute."""
        logging.getLogger("holdfast").addHandler(self._log)
        self._reader = open_reader(self.topology, LAST, me="client", position=0, tentative=True)
        for target in (self._watch, self._listen):
            thread = Thread(target=target, name="holdfast demo", daemon=True)
            self._threads.append(thread)
            thread.start()

    def open_sources(self) -> None:
        """Let rows flow; before that the replicas cost next to nothing."""
        for name in SOURCES:
            party = SourceParty(self.topology, name, arrow_schema(self.topology.streams[name]))
            driver = open_source(self.topology, name, party)
            self._sources.append((party, driver))
            driver.start()

    def _watch(self) -> None:
        while not self._ending.is_set():
            self.supervisor.look()
            self.states.append((now(), {name: self._state(name) for name in self.replicas}))
            self._ending.wait(EVERY)

    def _state(self, name: str) -> State:
        status = self.keepers[name].status
        if status is None or not status["ready"]:
            return State.FAILURE
        return State[status["state"]]

    def _listen(self) -> None:
        assert self._reader is not None
        while not self._ending.is_set():
            told = self._reader.next(EVERY)
            if told is not None:
                self.answers.take(now(), told)

    def close(self) -> None:
        """End all processes. May be called again."""
        with postponed():
            self._ending.set()
            for thread in self._threads:
                thread.join()
            if self._reader is not None:
                self._reader.close()
            self.supervisor.close()
            for party, driver in self._sources:
                driver.stop()
                party.close()
            self._sources.clear()
            for link in self._links.values():
                link.close()
            logging.getLogger("holdfast").removeHandler(self._log)
            self._log.close()

    # Breaking

    def kill(self, name: str) -> None:
        """kill -9; the supervisor starts it again."""
        process = self.keepers[name].process
        if process is not None:
            self.killed.append(name)
            process.kill()

    def cut(self) -> None:
        """Nothing passes between one source and those that read it."""
        for link in self._links.values():
            link.cut()

    def heal(self) -> None:
        for link in self._links.values():
            link.heal()

    # Looking

    def is_ready(self) -> bool:
        """Whether all replicas have begun to take part."""
        said = [keeper.status for keeper in self.keepers.values()]
        return all(status is not None and status["ready"] for status in said)

    def is_stable(self) -> bool:
        """Whether all replicas are."""
        return bool(self.states) and set(self.states[-1][1].values()) == {State.STABLE}

    def check(self) -> None:
        """Raise if a source fails, or if a process keeps ending by itself: with its last words."""
        for party, driver in self._sources:
            failure = party.failure or driver.failure
            if failure is not None:
                raise DemoError(f"the source {party.name} has failed ({failure}); start again")
        for name, keeper in self.keepers.items():
            ended = keeper.starts - (keeper.process is not None) - self.killed.count(name)
            if ended > ENDS:
                lines = keeper.log.read_text(errors="replace").splitlines()[-LINES:]
                said = "\n".join(f"  {line}" for line in lines)
                raise DemoError(
                    f"{name} ends by itself ({keeper.code}); the end of {keeper.log}:\n{said}"
                )

    def right_answers(self, until: int) -> list[Answer]:
        """What a run without failures answers up to a boundary, by the logs of the sources."""
        logs = [self._log_of(name, until) for name in SOURCES]
        return recalculate(pa.concat_tables(logs), until)

    def _log_of(self, source: str, until: int) -> pa.Table:
        ticket = LogTicket(source, 0, until)
        return fetch(self.topology.streams[source].address, None, ticket.write())
