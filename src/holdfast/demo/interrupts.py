"""Ctrl-C, kept waiting while something is done that must not be left half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["postponed"]

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def postponed() -> Iterator[None]:
    """Whoever wants us to end has to wait; afterwards KeyboardInterrupt is raised.

    Also handlers that are set within are put back, as pyspark's, which calls the JVM from within
    the call that it interrupts.
    """
    asked: list[int] = []
    before = {each: signal.signal(each, lambda which, _: asked.append(which)) for each in ENDINGS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if asked:
        raise KeyboardInterrupt
