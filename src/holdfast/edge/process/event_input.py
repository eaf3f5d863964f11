"""Events of a sensor: CSV and JSON lines, and simulated ones.

So whoever knows the start can say what every window must come to, whatever became of the processes
that carried the events. Values are whole numbers, and their sums are exact in any order.
"""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.aggregates import LONGEST_KEY, invalid_keys
from holdfast.errors import InvalidArgumentError

# Events that a sensor reads as lines: CSV with a line of names, or one JSON object each.
#
# Fields are `value`, and if wanted `time`, in seconds since 1970 or ISO 8601, and `key`, a text; a
# number or a bool is taken as it is written. Any other line is counted and left out.

PIECE: Final = 1 << 16
MOST_PIECES: Final = 16
"""That wait; then whoever writes them waits."""
LONGEST_LINE: Final = 1 << 20
AHEAD: Final = 86_400_000_000
"""Microseconds that an event may be ahead of this clock: a time beyond was given in another unit,
or by a clock that is wrong, and windows would go on to it."""


_UNREADABLE: Final = (
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    csv.Error,
)


logger = logging.getLogger("holdfast.edge")


class Batch(NamedTuple):
    times: NDArray[np.int64]
    values: NDArray[np.float64]
    keys: list[Any] | None


class Lines:
    """Turns text into events. `now` stamps those without a time."""

    def __init__(self, kind: str, now: Callable[[], int]) -> None:
        self.bad = 0
        self._kind = kind
        self._now = now
        self._names: list[str] | None = None
        self._rest = b""
        self._is_too_long = False
        """Of the line whose end has not come yet."""

    def feed(self, data: bytes) -> Batch:
        """The events of the lines that are whole now; empty data ends the last one."""
        whole = self._rest + data
        self._rest = b""
        lines = whole.split(b"\n")
        if data:
            self._rest = lines.pop()
        if lines and self._is_too_long:
            lines[0], self._is_too_long = b"", False
        if len(self._rest) > LONGEST_LINE:
            self.bad += not self._is_too_long
            self._rest, self._is_too_long = b"", True
        rows = [self._read(line.decode("utf-8", "replace")) for line in lines if line.strip()]
        events = [row for row in rows if row is not None]
        keys = [key for _, _, key in events]
        return Batch(
            np.array([time for time, _, _ in events], np.int64),
            np.array([value for _, value, _ in events], np.float64),
            keys if any(key is not None for key in keys) else None,
        )

    def _read(self, line: str) -> tuple[int, float, Any] | None:
        try:
            if self._kind == "jsonl":
                row = json.loads(line)
            else:
                cells = next(csv.reader([line], strict=True))
                if self._names is None:
                    self._names = [cell.strip("\ufeff \t\r") for cell in cells]
                    if "value" not in self._names:
                        raise InvalidArgumentError(
                            "input: the first line of CSV names no column 'value'; give one"
                        )
                    return None
                row = dict(zip(self._names, cells, strict=True))
            time = row.get("time")
            stamp = now = self._now()
            if time not in (None, ""):
                stamp = _microseconds(time)
                if not 0 <= stamp <= now + AHEAD:
                    raise ValueError(f"{time} is no time from 1970 to tomorrow")
            return stamp, float(row["value"]), _text(row.get("key"))
        except InvalidArgumentError:
            raise
        except _UNREADABLE:
            self.bad += 1
            return None


def _microseconds(time: Any) -> int:
    try:
        return round(float(time) * 1e6)
    except ValueError:
        found = datetime.fromisoformat(time)
        return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1e6)


def _text(key: Any) -> str | None:
    if key is None or key == "":
        return None
    if isinstance(key, bool | int | float):
        key = json.dumps(key)
    if isinstance(key, str) and key.isascii() and len(key) <= LONGEST_KEY:
        return key
    if not isinstance(key, str) or invalid_keys([key]) is not None:
        raise ValueError(f"a key is text of at most {LONGEST_KEY} bytes")
    return key


class LineReader:
    """Reads a file descriptor in a thread of its own, no further ahead than it is asked for."""

    def __init__(self, descriptor: int) -> None:
        self._pieces: Queue[bytes] = Queue(MOST_PIECES)
        self.ended = False
        self._descriptor = descriptor
        Thread(target=self._read, name="holdfast lines", daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, PIECE)
            except OSError as error:
                # A device that was unplugged: no more will come.
                logger.error("its input cannot be read (%s): that is taken for its end", error)
                data = b""
            self._pieces.put(data)
            if not data:
                return

    @property
    def has_more(self) -> bool:
        return not self._pieces.empty()

    def next(self) -> bytes | None:
        """What has come, None for nothing; empty, once, at the end."""
        try:
            data = self._pieces.get_nowait()
        except Empty:
            return None
        self.ended = not data
        return data


TABLE: Final = 1 << 16
"""Values and keys repeat after so many events."""
SECOND: Final = 1_000_000


@dataclass(frozen=True)
class Simulated:
    """`rate` events a second from `start` (microseconds since 1970) on; `keys`: how many there are,
    0 for events without; `count`: there are no more events than that."""

    name: str
    start: int
    rate: float
    seed: int = 0
    keys: int = 0
    count: int | None = None
    values: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    _keys: NDArray[Any] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, crc32(self.name.encode())])
        values = rng.integers(-500, 1_000, TABLE).astype(np.float64)
        object.__setattr__(self, "values", values)
        keys = None
        if self.keys:
            names = np.array([f"k{number}" for number in range(self.keys)], object)
            keys = names[rng.integers(0, self.keys, TABLE)]
        object.__setattr__(self, "_keys", keys)

    @property
    def _per_thousand(self) -> int:
        return max(1, round(self.rate * 1_000))

    def time(self, number: int) -> int:
        """Of the event of that number; they count from 0."""
        return self.start + number * SECOND * 1_000 // self._per_thousand

    def before(self, time: int) -> int:
        """How many events there are before a time."""
        found = max(0, -(-(time - self.start) * self._per_thousand // (SECOND * 1_000)))
        return found if self.count is None else min(found, self.count)

    def events(
        self, first: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[Any] | None]:
        """Times, values and keys of the events from one number to another."""
        numbers = np.arange(first, stop, dtype=np.int64)
        times = self.start + numbers * (SECOND * 1_000) // self._per_thousand
        at = numbers % TABLE
        keys = None if self._keys is None else self._keys[at].tolist()
        return times, self.values[at], keys

    def within(self, start: int, end: int) -> NDArray[np.float64]:
        """The values of the events in `[start, end)`."""
        return self.events(self.before(start), self.before(end))[1]

    def keys_within(self, start: int, end: int) -> list[Any]:
        return self.events(self.before(start), self.before(end))[2] or []
