"""A flood of a Flight server by callers that do not know its token: bounded, and on loopback."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.transport.addresses import Address
from holdfast.transport.client import LogClient
from holdfast.transport.security import Security

__all__ = ["BOUND", "Flooding", "addresses_below", "flood", "peak_memory"]

PATIENCE_S: Final = 60.0
CALLS: Final = 4
BOUND: Final = 64 << 20
"""Bytes by which a flood of any size may let a server grow."""


def flood(
    address: str, stranger: Security | None, *, calls: int = CALLS, size: int = 64 << 20
) -> int:
    """Calls of so many bytes at once, each by a connection of its own; how many were refused."""
    if Address.of(address).host != "127.0.0.1":
        raise ValueError(f"{address} is not on loopback")
    body = bytes(size)

    def call(number: int) -> bool:
        with LogClient(address, stranger, timeout=PATIENCE_S) as client:
            flight, options = client._client, client._options
            descriptor = fl.FlightDescriptor.for_command(body)
            kinds = (
                lambda: list(flight.do_action(fl.Action("tell", body), options)),
                lambda: flight.do_get(fl.Ticket(body), options).read_all(),
                lambda: flight.get_flight_info(descriptor, options),
            )
            try:
                kinds[number % len(kinds)]()
            except (fl.FlightError, pa.ArrowException, OSError):
                return True
            return False

    with ThreadPoolExecutor(calls) as pool:
        return sum(pool.map(call, range(calls)))


def peak_memory(pid: int) -> int:
    """Bytes that a process had resident at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


class Flooding:
    """Floods the verifiers of the jobs below a folder, each some times, while something else runs.
    A context manager, whose end says if one of them grew or let a caller in."""

    def __init__(self, folder: Path, *, times: int = 2, size: int = 128 << 20) -> None:
        self.floods = 0
        self._folder = folder
        self._times = times
        self._size = size
        self._grown: list[str] = []
        self._ending = Event()
        self._thread = Thread(target=self._try_run, name="flooding", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if self._grown:
            raise AssertionError("; ".join(self._grown))

    def _try_run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self._grown.append(f"the flooding has ended: {error!r}")

    def _run(self) -> None:
        seen: Counter[Path] = Counter()
        while not self._ending.wait(0.2):
            for file in addresses_below(self._folder):
                pid = _process_of(file.parent)
                if pid is not None and seen[file] < self._times:
                    seen[file] += 1
                    # It may end meanwhile, with its job.
                    with suppress(OSError):
                        self._flood(file.read_text(), pid)

    def _flood(self, address: str, pid: int) -> None:
        before = peak_memory(pid)
        refused = flood(address, None, size=self._size)
        grown = peak_memory(pid) - before
        self.floods += 1
        if refused < CALLS or grown > BOUND:
            self._grown.append(
                f"{address}: {refused} of {CALLS} calls without the token were refused, and the "
                f"verifier grew by {grown >> 20} MiB"
            )


def addresses_below(folder: Path) -> list[Path]:
    """Of the verifiers below a folder, where replicas make and remove others meanwhile."""
    found = []
    for place, folders, files in os.walk(folder):
        if Path(place).name.startswith("verifier") and "address" in files:
            found.append(Path(place) / "address")
        # What replicas keep for Spark are thousands.
        folders[:] = [each for each in folders if not each.startswith(("replica", "."))]
    return found


def _process_of(folder: Path) -> int | None:
    """The verifier with that folder."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if b"holdfast.verify.process.server" in words and str(folder).encode() in words:
                return int(entry.parent.name)
    return None
