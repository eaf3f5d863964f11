"""A server in a process of its own, to be stopped and killed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.transport.security import Security

SERVE = """
import pickle, sys
from holdfast.transport.server import LogServer
from tests.transport.parties import Recorder
security = pickle.loads(bytes.fromhex(sys.argv[1]))
server = LogServer(("127.0.0.1", 0), security, Recorder(), heartbeat=0.05, silence=0.6)
print(server.address.port, flush=True)
sys.stdin.read()
server.close()
"""


@contextmanager
def server_process(
    security: Security | None = None,
) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, pickle.dumps(security).hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    try:
        assert process.stdout is not None
        yield process, ("127.0.0.1", int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()
