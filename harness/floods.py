"""A flood of a Flight server by callers that do not know its token: bounded, and on loopback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl

from holdfast.wire.addresses import Address
from holdfast.wire.client import LogClient
from holdfast.wire.security import Security

__all__ = ["flood", "peak_memory"]

PATIENCE_S = 60.0


def flood(address: str, stranger: Security | None, *, calls: int = 4, size: int = 64 << 20) -> int:
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
