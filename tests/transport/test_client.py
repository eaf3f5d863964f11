"""Single calls: they end in time, whatever the server does."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import UnreachableError
from holdfast.transport.client import LogClient, act, fetch
from tests.transport.parties import SOON, no_threads_left, wait_for
from tests.transport.processes import server_process
from tests.transport.samples import readings


def is_answered(client: LogClient) -> bool:
    try:
        return client.act("echo", b"x") == b"x"
    except UnreachableError:
        return False


def test_calls_to_a_stopped_server_end_in_time() -> None:
    large = pa.table({"c": np.zeros(5_000_000)})
    with (
        no_threads_left(),
        server_process() as (process, address),
        LogClient(address, timeout=1) as client,
    ):
        assert fetch(address, None, b"rows 5").equals(readings(5))
        wait_for(lambda: is_answered(client))
        os.kill(process.pid, signal.SIGSTOP)
        stat = Path(f"/proc/{process.pid}/stat")
        wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        for call in [
            lambda: client.fetch(b"rows 5"),
            lambda: client.act("echo"),
            lambda: client.push("readings", large),
            lambda: fetch(address, None, b"rows 5", timeout=1),
        ]:
            begin = time.monotonic()
            with pytest.raises(UnreachableError):
                call()
            assert time.monotonic() - begin < SOON
        os.kill(process.pid, signal.SIGCONT)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(UnreachableError, match=r"^127.0.0.1:\d+: .*; see whether it runs"):
        act(address, None, "echo", timeout=5)
