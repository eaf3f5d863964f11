"""Stages of a running topology as tasks, and the load they take.

The topology names a replica of a stage for each participant that may run it; only those run that
load managers let run. A move starts the partner's replica, which takes its state from the one that
runs and catches up as any replica does after a failure; when it has, it stays and the other ends.
While both run they compute the same buckets alike, and gates downstream take each of them once,
from whichever they read: that is the fence too.
"""

from __future__ import annotations

import json
import logging
import operator
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, NamedTuple, Protocol

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.federation.machine import Command, Epoch, Load, Manager
from holdfast.federation.process.settings import Participant
from holdfast.pipeline.process.replica_config import security_of
from holdfast.pipeline.process.supervisor import Keeper
from holdfast.pipeline.topology import Topology
from holdfast.transport.client import act

Event = Callable[[Manager, int], list[Command]]
"""Something that has happened to a task: told to the manager, with the time."""
Tell = Callable[[Event], None]


class Tasks(Protocol):
    """Called by one thread. Nothing may wait: what takes time is told when it has happened."""

    def prepare(self, task: str, epoch: Epoch, source: str, tell: Tell) -> None: ...

    def start(self, task: str, epoch: Epoch, bucket: int, tell: Tell) -> None: ...

    def halt(self, task: str, epoch: Epoch, tell: Tell) -> None: ...

    def resume(self, task: str, epoch: Epoch) -> None: ...

    def stop(self, task: str, epoch: Epoch) -> None: ...

    def fence(self, task: str, epoch: Epoch, tell: Tell) -> None: ...

    def loads(self) -> Mapping[str, Load]:
        """What those take that run here, as far as it was measured."""

    def broken(self) -> frozenset[str]:
        """Those that are to run here and do not: ended, or not ready."""
        ...

    def close(self) -> None: ...


# What a stage takes, of what the replica that runs it reports of its Spark.
#
# Everything is counted by the span of the stream that was worked on, not by the clock: a stage that
# does not keep up, or catches up, takes as much as its rows ask for, which may be more than there
# is.


class _Counts(NamedTuple):
    """Since the replica was started."""

    boundary: float
    """Up to where its stream is final, in seconds."""
    busy: float
    rows: float
    bytes: float


@dataclass(slots=True)
class Meter:
    """Of one task. `rows_per_second`: those that take all of the cpu; None: Spark's busy time."""

    bytes_per_second: float
    rows_per_second: float | None = None
    _last: _Counts | None = None

    def look(self, status: Mapping[str, Any]) -> Load | None:
        """The load since the last look; None if the stream has not gone on since then."""
        counts = _Counts(
            float(status.get("boundary", 0)) / 1e6,
            float(status.get("busy_seconds", 0.0)),
            float(status.get("input_rows", 0)),
            float(status.get("received_bytes", 0)),
        )
        last = self._last
        if last is not None and last.boundary == counts.boundary:
            return None
        self._last = counts
        # Before its first bucket a stream ends in 1970; one that was started anew counts from 0.
        if last is None or not last.boundary or any(map(operator.lt, counts, last)):
            return None
        span = counts.boundary - last.boundary
        cpu = (counts.busy - last.busy) / span
        if self.rows_per_second is not None:
            cpu = (counts.rows - last.rows) / span / self.rows_per_second
        return Load(cpu, (counts.bytes - last.bytes) / span / self.bytes_per_second)


LOOK = 0.5
"""Seconds between two looks at the replicas."""
ANSWER = 2.0
PATIENCE = 20.0
BEHIND = 4
"""Buckets that a replica may be behind the clock when it takes over."""

logger = logging.getLogger("holdfast")


@dataclass(slots=True)
class _Stage:
    """The replica of one task here, and what it is wanted for."""

    keeper: Keeper
    span: int
    meter: Meter
    is_wanted: bool = False
    preparing: tuple[Epoch, Tell] | None = None
    load: Load | None = None
    """None until it was measured since it runs here."""
    lingers: int = 0
    """Up to which boundary it goes on though it is not wanted any more."""
    until: float = 0.0
    """When it ends though it has not come so far; when it is killed, once it was asked to end."""
    is_ending: bool = False
    is_broken: bool = False
    """Whether it is to run and did not answer as one that does, when it was last looked at."""

    @property
    def boundary(self) -> int:
        """Up to where its stream is final, as it last said."""
        return int((self.keeper.status or {}).get("boundary", 0))


class StageTasks:
    """Replicas as processes, started and ended as a load manager says."""

    def __init__(self, participant: Participant, *, master: str = "local[2]") -> None:
        if participant.topology is None:
            raise InvalidArgumentError("topology: is missing; say whose stages are the tasks")
        file = participant.path(participant.topology)
        topology = Topology.read(file)
        self._security = security_of(topology)
        self._stages = {
            name: _make_stage(topology, file, work.replica, participant, master)
            for name, work in participant.tasks.items()
        }
        self._lock = Lock()
        self._closing = Flag()
        self._thread = Thread(target=self._watch, name="holdfast stages", daemon=True)
        self._thread.start()

    # What the load manager says.

    def prepare(self, task: str, epoch: Epoch, source: str, tell: Tell) -> None:
        stage = self._stages.get(task)
        if stage is None:
            tell(lambda manager, now: manager.unable(task, epoch, now))
            return
        with self._lock:
            stage.is_wanted = True
            stage.preparing = (epoch, tell)

    def start(self, task: str, epoch: Epoch, bucket: int, tell: Tell) -> None:
        with self._lock:
            stage = self._stages[task]
            stage.is_wanted = True
            stage.preparing = None

    def halt(self, task: str, epoch: Epoch, tell: Tell) -> None:
        """It goes on until the other runs: a replica more does no harm, one less would."""
        stage = self._stages[task]
        bucket = stage.boundary // stage.span
        tell(lambda manager, now: manager.halted(task, epoch, bucket, now))

    def resume(self, task: str, epoch: Epoch) -> None:
        pass

    def stop(self, task: str, epoch: Epoch) -> None:
        """It goes on until the other, which may be some buckets behind, is as far as it is now."""
        stage = self._stages.get(task)
        if stage is None or not stage.is_wanted:
            return
        with self._lock:
            runs = stage.preparing is None
            stage.lingers = stage.boundary + BEHIND * stage.span if runs else 0
            stage.until = time.monotonic() + PATIENCE
            stage.is_wanted = False
            stage.preparing = None
            stage.load = None

    def fence(self, task: str, epoch: Epoch, tell: Tell) -> None:
        """Gates take each bucket once, whoever brings it: there is nothing to wait for."""
        tell(lambda manager, now: manager.fenced(task, epoch, 0))

    def loads(self) -> Mapping[str, Load]:
        with self._lock:
            return {name: each.load for name, each in self._stages.items() if each.load is not None}

    def broken(self) -> frozenset[str]:
        with self._lock:
            return frozenset(
                name for name, each in self._stages.items() if each.is_wanted and each.is_broken
            )

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        for stage in self._stages.values():
            stage.keeper.ask_to_end()
        deadline = time.monotonic() + PATIENCE
        for stage in self._stages.values():
            stage.keeper.end(deadline - time.monotonic())

    # What is looked at.

    def _watch(self) -> None:
        while not self._closing.wait(LOOK):
            for name, stage in self._stages.items():
                try:
                    self._look(name, stage)
                except OSError as error:
                    logger.error("%s: %s", name, error)

    def _look(self, name: str, stage: _Stage) -> None:
        keeper, now = stage.keeper, time.monotonic()
        if stage.is_ending:
            self._await_end(stage, now)
            return
        if not stage.is_wanted and (
            keeper.process is None or stage.boundary >= stage.lingers or now > stage.until
        ):
            self._end(name, stage, now)
            return
        keeper.look(now)
        keeper.status = self._ask(keeper)
        is_ready = keeper.status is not None and bool(keeper.status.get("ready"))
        with self._lock:
            stage.is_broken = stage.is_wanted and stage.preparing is None and not is_ready
        if stage.is_wanted and keeper.status is not None and is_ready:
            self._note(name, stage, keeper.status)

    def _note(self, name: str, stage: _Stage, status: Mapping[str, Any]) -> None:
        with self._lock:
            load = stage.meter.look(status)
            if load is not None and stage.preparing is None and stage.is_wanted:
                stage.load = load
            prepared = stage.preparing if _has_caught_up(stage, status) else None
            if prepared is not None:
                stage.preparing = None
        if prepared is not None:
            epoch, tell = prepared
            logger.info("%s: %s has caught up", name, stage.keeper.party.name)
            tell(lambda manager, now: manager.prepared(name, epoch, now))

    def _end(self, name: str, stage: _Stage, now: float) -> None:
        if stage.keeper.process is not None:
            logger.info("%s: %s ends, for it runs elsewhere", name, stage.keeper.party.name)
            stage.keeper.ask_to_end()
            stage.is_ending, stage.until = True, now + PATIENCE
        stage.keeper.status = None

    def _await_end(self, stage: _Stage, now: float) -> None:
        """Others are looked at while it ends."""
        process = stage.keeper.process
        if process is None or process.poll() is not None or now > stage.until:
            stage.keeper.end(0)
            stage.is_ending = False

    def _ask(self, keeper: Keeper) -> Mapping[str, Any] | None:
        if keeper.process is None or keeper.party.address is None:
            return None
        try:
            said = act(keeper.party.address, self._security, "status", b"", timeout=ANSWER)
            found: Mapping[str, Any] = json.loads(said)
            return found
        except (HoldfastError, ValueError):
            return None


def _make_stage(
    topology: Topology, file: Path, replica: str, participant: Participant, master: str
) -> _Stage:
    party = topology.parties().get(replica)
    if party is None or "/" not in replica:
        raise InvalidArgumentError(
            f"tasks: {replica!r} is no replica of {file.name}; name one, as clean/1"
        )
    logs = participant.path(participant.folder) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "holdfast", "node", str(file), replica, "--master", master]
    keeper = Keeper(party, command, logs / f"{replica.replace('/', '-')}.log")
    meter = Meter(participant.bytes_per_second, participant.rows_per_second)
    return _Stage(keeper, int(topology.bucket), meter)


def _has_caught_up(stage: _Stage, status: Mapping[str, Any]) -> bool:
    lag = float(status.get("lag_seconds", float("inf")))
    return status.get("state") == "STABLE" and lag * 1e6 <= BEHIND * stage.span
