"""A process that is attended: it has its orders from nobody else, and ends with who gave them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verify.process.test_orders import ORDERS

ATTENDED = """
import os, subprocess, sys
from holdfast.verify.process.replica_process import attend
orders, trace = attend()
os.write(trace, f"{orders.replica}\\n".encode())
print("prints", repr(sys.stdin.read()), flush=True)
subprocess.run(["sh", "-c", "echo child; cat"])
print("waits", file=sys.stderr, flush=True)
import signal
signal.pause()
"""


@contextmanager
def attended(**more: int) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ATTENDED], **(pipes | more)) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_ends_with_its_input() -> None:
    with attended() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(ORDERS.encode())
        process.stdin.flush()
        said = [process.stderr.readline() for _ in range(3)]
        assert said == [b"prints ''\n", b"child\n", b"waits\n"], "the job's code has no orders"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 1
        assert b"the coordinator has ended" in process.stderr.read()
        assert process.stdout.read() == b"3\n", "nothing but the trace"


def test_keys_are_not_sent_to_a_terminal() -> None:
    ours, theirs = os.openpty()
    try:
        with attended(stdin=theirs) as process:
            assert process.stderr is not None
            assert b"standard input is a terminal" in process.stderr.read()
    finally:
        os.close(ours)
        os.close(theirs)
