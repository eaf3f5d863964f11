"""What ties a replica's process to the coordinator that has started it, wherever it runs.

Orders come by its standard input, which stays open as long as the coordinator is there: keys are in
no file and on no command line. The trace goes by its standard output. So neither needs a folder
that both machines see.
"""

from __future__ import annotations

import logging
import os
import sys
from threading import Thread

from holdfast.errors import InvalidArgumentError
from holdfast.verify.orders import Orders

__all__ = ["attend"]

logger = logging.getLogger("holdfast")


def attend() -> tuple[Orders, int]:
    """The orders, and the number of the open file for the trace. From now on the process ends with
    the coordinator; the job's own code reads nothing, and what it prints goes to the log."""
    if os.isatty(sys.stdin.fileno()):
        raise InvalidArgumentError(
            "orders: standard input is a terminal, which would show the keys in them; launch "
            "drivers without one, as ssh does without -t"
        )
    coordinator = os.dup(sys.stdin.fileno())
    trace = os.dup(sys.stdout.fileno())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(coordinator, "rb", closefd=False) as said:
        orders = Orders.decode(said.readline())
    Thread(target=_end_with, args=(coordinator,), name="holdfast attendance", daemon=True).start()
    return orders, trace


def _end_with(coordinator: int) -> None:
    while os.read(coordinator, 1 << 16):
        pass
    logger.error("the coordinator has ended: so does this replica")
    # Nothing is left to be told to anybody, and the JVM ends with its driver.
    os._exit(1)
