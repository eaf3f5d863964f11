"""The command `holdfast run FILE`: a process for each party, restarted with back-off.

A party that ends is started again, after a pause that grows while it keeps ending. What each says
goes into a file of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from holdfast.doctor import require_java
from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pipeline.process.process import SUPERVISOR
from holdfast.pipeline.process.replica_config import security_of
from holdfast.pipeline.topology import Party, PartyKind, Topology
from holdfast.runtime.prometheus import LOOPBACK
from holdfast.storage.atomic_file import write_whole
from holdfast.transport.client import act

PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before a party is started again, by how often it has ended in a row."""
WELL = 60.0
"""A party that has run so long has not ended in a row."""
PATIENCE = 20.0
"""Seconds for parties to end when they are asked to."""
STARTING = 2.0
"""The same for one that is not there yet: all it has is on its disk."""
ANSWER = 2.0
"""Seconds for a party to say how it is."""


@dataclass(slots=True)
class Keeper:
    """One party's process."""

    party: Party
    command: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    ended_in_a_row: int = 0
    started: float = 0.0
    due: float = 0.0
    """When to start it next."""
    code: int | None = None
    """What it last ended with."""
    status: Mapping[str, Any] | None = None
    """What it last said of itself."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it finds in its environment beyond ours."""

    def look(self, now: float) -> None:
        """Start it if it is time to; see whether it has ended."""
        if self.process is None:
            if now >= self.due:
                self._start(now)
            return
        code = self.process.poll()
        if code is None:
            return
        self.code, self.process, self.status = code, None, None
        self.ended_in_a_row = 0 if now - self.started > WELL else self.ended_in_a_row + 1
        pause = PAUSES[min(self.ended_in_a_row, len(PAUSES)) - 1] if self.ended_in_a_row else 0.0
        self.due = now + pause

    def _start(self, now: float) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment, SUPERVISOR: str(os.getpid())},
                # Ctrl-C is for the supervisor: it ends them in order.
                start_new_session=True,
            )
        self.starts += 1
        self.started = now

    @property
    def is_starting(self) -> bool:
        """Whether it has not begun to take part, as far as it can be asked."""
        if self.party.address is None:
            return False
        return self.status is None or not self.status.get("ready", True)

    def ask_to_end(self) -> None:
        if self.process is not None:
            with suppress(OSError):
                self.process.terminate()

    def end(self, patience: float) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(max(patience, 0.1))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass
class Supervisor:
    """Keeps the parties of a topology going while it is told to `look`. A context manager."""

    topology: Topology
    file: Path
    only: Iterable[str] = ()
    """The hosts whose parties to run; all if none is given."""
    options: Sequence[str] = ()
    """What `holdfast node` is given for replicas."""
    metrics: int | None = None
    """The port of the first party's figures for Prometheus; each has the next one, whether it runs
    here or not."""
    routes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By party: where it reaches others, if not where the file says."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What replicas find in their environment beyond ours."""
    keepers: dict[str, Keeper] = field(default_factory=dict)

    def __post_init__(self) -> None:
        hosts = set(self.only)
        parties = self.topology.parties()
        unknown = hosts - {party.host for party in parties.values()}
        if unknown:
            raise InvalidArgumentError(
                f"--only: nothing runs on {', '.join(sorted(unknown))}; the topology has "
                f"{', '.join(sorted({party.host for party in parties.values()}))}"
            )
        ports = _ports(parties, self.metrics)
        logs = self.topology.state_folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._security = security_of(self.topology)
        for name, party in parties.items():
            if hosts and party.host not in hosts:
                continue
            keeper = Keeper(
                party, self._command(party, ports), logs / f"{name.replace('/', '-')}.log"
            )
            if party.kind is PartyKind.REPLICA:
                keeper.environment = self.environment
            self.keepers[name] = keeper
        if any(keeper.party.kind is PartyKind.REPLICA for keeper in self.keepers.values()):
            # Else they would end and be started again for ever, and only their logs would say why.
            require_java()
        if ports:
            self._write_targets([ports[name] for name in self.keepers])

    def _command(self, party: Party, ports: Mapping[str, int]) -> list[str]:
        command = [sys.executable, "-m", "holdfast", "node", str(self.file), party.name]
        if party.kind is PartyKind.REPLICA:
            command += self.options
        for other, address in self.routes.get(party.name, {}).items():
            command += ["--route", f"{other}={address}"]
        if party.name in ports:
            command += ["--metrics", str(ports[party.name])]
        return command

    def _write_targets(self, ports: Iterable[int]) -> None:
        """For the `file_sd_configs` of Prometheus."""
        found = {
            "targets": [f"{LOOPBACK}:{port}" for port in ports],
            "labels": {"topology": self.topology.name},
        }
        write_whole(self.topology.state_folder / "metrics.json", json.dumps([found]).encode())

    def look(self) -> None:
        """Start what is to be started, and ask all how they are."""
        now = time.monotonic()
        for keeper in self.keepers.values():
            keeper.look(now)
        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(self._ask, self.keepers.values()))

    def _ask(self, keeper: Keeper) -> None:
        if keeper.process is None or keeper.party.address is None:
            return
        try:
            said = act(keeper.party.address, self._security, "status", b"", timeout=ANSWER)
            keeper.status = json.loads(said)
        except (HoldfastError, ValueError):
            keeper.status = None

    def close(self) -> None:
        """End all parties: sinks and replicas first, so that sources lose nobody they wait for."""
        keepers = list(reversed(self.keepers.values()))
        for keeper in keepers:
            keeper.ask_to_end()
        asked = time.monotonic()
        for keeper in keepers:
            patience = STARTING if keeper.is_starting else PATIENCE
            keeper.end(asked + patience - time.monotonic())

    def __enter__(self) -> Self:
        os.environ.setdefault("PYTHONUNBUFFERED", "1")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ports(names: Iterable[str], first: int | None) -> dict[str, int]:
    if first is None:
        return {}
    ports = {name: first + at for at, name in enumerate(names)}
    if first < 1 or max(ports.values()) > 65535:
        raise InvalidArgumentError(
            f"--metrics: {len(ports)} parties have no ports from {first} on; give one from 1 to "
            f"{65536 - len(ports)}"
        )
    return ports
