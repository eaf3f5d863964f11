"""A sensor's events as JSON lines: `python -m benchmarks.edge.feed NAME START RATE SEED KEYS`.

The events of `Simulated`, so that every window can be recalculated, each when it is due or as soon
as the reader has taken those before: {"time":1790000000.000123,"value":-17.0,"key":"k42"}.
"""

from __future__ import annotations

import sys
import time
from typing import BinaryIO, Final

from holdfast.edge.process.event_input import Simulated

__all__ = ["lines", "main"]

AT_ONCE: Final = 2_000
"""Most lines written together."""
PAUSE: Final = 0.01
"""Seconds without a line that is due."""


def lines(simulated: Simulated, first: int, stop: int) -> bytes:
    """The events from one number to another, a line each."""
    times, values, keys = simulated.events(first, stop)
    names = keys or [None] * len(times)
    written = []
    for moment, value, key in zip(times.tolist(), values.tolist(), names, strict=True):
        seconds, micros = divmod(moment, 1_000_000)
        named = "" if key is None else f',"key":"{key}"'
        written.append(f'{{"time":{seconds}.{micros:06d},"value":{value}{named}}}\n')
    return "".join(written).encode()


def main(name: str, start: int, rate: float, seed: int, keys: int, out: BinaryIO) -> None:
    """Until the reader is gone."""
    simulated = Simulated(name, start, rate, seed, keys)
    number = 0
    try:
        while True:
            stop = min(simulated.before(int(time.time() * 1e6)), number + AT_ONCE)
            if stop > number:
                out.write(lines(simulated, number, stop))
                out.flush()
                number = stop
            else:
                time.sleep(PAUSE)
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        float(sys.argv[3]),
        int(sys.argv[4]),
        int(sys.argv[5]),
        sys.stdout.buffer,
    )
