"""Admission of jobs: one whose replicas do not all fit is not started.

Jobs that each have half of their replicas would wait for each other for ever. So a job takes all
that it needs of every pool, or nothing. What jobs have taken stands in a ledger that they share; a
job holds a lock while it runs, so that nothing stays taken when it is killed. Those that wait are
let in in the order in which they came.

The ledger lies where no replica writes: who can write there can keep all jobs waiting.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import msgspec

from holdfast.errors import (
    InvalidArgumentError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)
from holdfast.storage.atomic_file import write_whole
from holdfast.verify.process.config import Need, Pool, parse_memory

LEDGER: Final = "ledger.json"

logger = logging.getLogger("holdfast")


class Room(msgspec.Struct, frozen=True):
    """So much of one pool."""

    cores: int
    memory: int
    """In bytes."""

    def __add__(self, other: Room) -> Room:
        return Room(self.cores + other.cores, self.memory + other.memory)


class _Entry(msgspec.Struct):
    """A job that runs or waits."""

    job: str
    rooms: dict[str, Room]
    """What it has, or wants, by pool."""
    runs: bool


def room_for(need: Need, pools: Mapping[int, Pool]) -> dict[str, Room]:
    """What replicas in these pools need of each."""
    one = Room(need.cores, parse_memory("replica.memory", need.memory))
    rooms: dict[str, Room] = {}
    for pool in pools.values():
        rooms[pool.name] = rooms.get(pool.name, Room(0, 0)) + one
    return rooms


class Admission:
    """Of one job, in a folder that all jobs have in common. A context manager: what was taken is
    given back in the end."""

    def __init__(self, folder: Path, job: str, pools: Mapping[int, Pool], need: Need) -> None:
        """Raises InvalidArgumentError if the job could not run even alone."""
        self._folder = folder
        self._job = job
        self._need = need
        self._capacity = {pool.name: pool for pool in pools.values()}
        self._rooms = room_for(need, pools)
        for pool, room in self._rooms.items():
            if lack := self._lack(pool, room, Room(0, 0)):
                raise InvalidArgumentError(
                    f"admission: {lack}; give the replicas less, or the pool more"
                )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._hold = os.open(self._holding(job), os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(self._hold, fcntl.LOCK_EX)
        except OSError as error:
            raise _unavailable(folder, error) from error

    def enter(self) -> str:
        """Take what the job needs. Answers why not if it must wait: ask again then."""
        with self._ledger() as entries:
            mine = next((each for each in entries if each.job == self._job), None)
            if mine is None:
                mine = _Entry(self._job, self._rooms, runs=False)
                entries.append(mine)
            before = entries[: entries.index(mine)]
            waiting = [each.job for each in before if not each.runs]
            if not mine.runs and waiting:
                return f"job {waiting[0]} waits already and comes first"
            lacks = self._lacks(entries, self._rooms)
            mine.runs = not lacks
            return lacks

    def move(self, pools: Mapping[int, Pool]) -> bool:
        """Take these pools in place of those that it has, if they are known to have room."""
        self._capacity |= {pool.name: pool for pool in pools.values()}
        rooms = room_for(self._need, pools)
        try:
            with self._ledger() as entries:
                if self._lacks(entries, rooms):
                    return False
                for each in entries:
                    if each.job == self._job:
                        each.rooms = rooms
        except StoreError as error:
            logger.warning("admission: %s", error)
            return False
        self._rooms = rooms
        return True

    def close(self) -> None:
        """Raises nothing: without its lock, what the ledger says of this job does not count."""
        if self._hold < 0:
            return
        try:
            with self._ledger() as entries:
                entries[:] = [each for each in entries if each.job != self._job]
        except StoreError as error:
            logger.warning("admission: %s", error)
        with suppress(OSError):
            self._holding(self._job).unlink()
        os.close(self._hold)
        self._hold = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lacks(self, entries: list[_Entry], rooms: Mapping[str, Room]) -> str:
        for pool, room in rooms.items():
            taken = Room(0, 0)
            for each in entries:
                if each.runs and each.job != self._job and pool in each.rooms:
                    taken += each.rooms[pool]
            if lack := self._lack(pool, room, taken):
                holders = ", ".join(
                    each.job for each in entries if each.runs and pool in each.rooms
                )
                return f"{lack}, of which others have {taken.cores} ({holders})"
        return ""

    def _lack(self, name: str, wanted: Room, taken: Room) -> str:
        pool = self._capacity[name]
        if pool.cores is not None and taken.cores + wanted.cores > pool.cores:
            return f"pool {name} has {pool.cores} cores, and the job needs {wanted.cores}"
        if pool.memory is not None:
            there = parse_memory(f"pool {name}: memory", pool.memory)
            if taken.memory + wanted.memory > there:
                return (
                    f"pool {name} has {there >> 20} MiB, and the job needs "
                    f"{wanted.memory >> 20} MiB and {wanted.cores} cores"
                )
        return ""

    @contextmanager
    def _ledger(self) -> Iterator[list[_Entry]]:
        """What all jobs have, for one job at a time; those that are no more are left out."""
        path = self._folder / LEDGER
        lock = -1
        try:
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = [each for each in _read(path) if self._is_there(each.job)]
            yield entries
            write_whole(path, msgspec.json.format(msgspec.json.encode(entries)))
        except OSError as error:
            raise _unavailable(self._folder, error) from error
        finally:
            if lock >= 0:
                os.close(lock)

    def _is_there(self, job: str) -> bool:
        """Whether its process holds its lock."""
        if job == self._job:
            return True
        try:
            held = os.open(self._holding(job), os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(held)
        return False

    def _holding(self, job: str) -> Path:
        return self._folder / f"{job}.job"


def _read(path: Path) -> list[_Entry]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[_Entry])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError as error:
        raise StoreCorruptError(f"{path}: {error}; remove it when no job runs") from error


def _unavailable(folder: Path, error: OSError) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"{folder}: {error.strerror}; give a folder for `slots` that may be written to"
    )
