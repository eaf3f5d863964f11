"""pathway's sliding window over two CSV lanes, in two threads, sampled while it runs; prints JSON.

Run in the stream peers' environment by the part `spark-windows`: FOLDER SIZE SLIDE SECONDS, where
size and slide are in milliseconds. The lanes are read line by line in turn: its own reader takes a
file as one batch, and the second lane would be late when the first one is done.
"""

import json
import os
import sys
import threading
import time
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

os.environ["PATHWAY_THREADS"] = "2"
import pathway as pw

WORK = 120_000
"""Rows times windows between two commits, so that there is progress to be seen."""


PATIENCE = 20
"""Seconds the first commit may take."""


class Reading(pw.Schema):
    key: str
    ts: int
    value: float


class Lanes(pw.io.python.ConnectorSubject):
    def __init__(self, folder, rows_per_commit):
        super().__init__()
        self._paths = sorted(Path(folder).glob("*.csv"))
        self._rows_per_commit = rows_per_commit

    def run(self):
        with ExitStack() as stack:
            lanes = [stack.enter_context(open(path)) for path in self._paths]
            for number, line in enumerate(chain.from_iterable(zip(*lanes, strict=False)), 1):
                key, moment, value = line.split(",")
                self.next(key=key, ts=int(moment), value=float(value))
                if number % self._rows_per_commit == 0:
                    self.commit()


class Progress:
    """(Second, rows taken) after each commit, from the first on.

    No more rows are taken while `max_backlog_size` of them wait for their windows.
    """

    def __init__(self, seconds):
        self._seconds = seconds
        self._rows = 0
        self._samples = []
        self._lock = threading.Lock()
        # In case there is never a commit.
        self._started = time.monotonic()
        threading.Timer(seconds + PATIENCE, self.end, [False]).start()

    def count(self, key, row, time, is_addition):
        if is_addition:
            self._rows = row["rows"]

    def commit(self, _):
        now = time.monotonic()
        if not self._samples:
            self._begun = now
        self._samples.append([now - self._begun, self._rows])
        if now - self._begun > self._seconds:
            self.end(finished=False)

    def end(self, finished):
        with self._lock:
            samples = self._samples
            if len(samples) < 2:
                samples = [[0.0, 0], [time.monotonic() - self._started, self._rows]]
            print(json.dumps({"samples": samples, "finished": finished}), flush=True)
            # Stopping in good order would first work off what has been read.
            os._exit(0)


def nothing(key, row, time, is_addition):
    pass


def main():
    folder, size, slide, seconds = sys.argv[1], *map(int, sys.argv[2:])
    rows_per_commit = max(20, WORK // (size // slide) // 2 * 2)
    readings = pw.io.python.read(
        Lanes(folder, rows_per_commit),
        schema=Reading,
        autocommit_duration_ms=None,
        max_backlog_size=2 * rows_per_commit,
    )
    answers = readings.windowby(
        readings.ts,
        window=pw.temporal.sliding(hop=slide, duration=size),
        instance=readings.key,
        behavior=pw.temporal.exactly_once_behavior(shift=2000),
    ).reduce(
        key=pw.this._pw_instance,
        start=pw.this._pw_window_start,
        n=pw.reducers.count(),
        total=pw.reducers.sum(pw.this.value),
        low=pw.reducers.min(pw.this.value),
        high=pw.reducers.max(pw.this.value),
    )
    progress = Progress(seconds)
    total = readings.reduce(rows=pw.reducers.count())
    pw.io.subscribe(total, on_change=progress.count, on_time_end=progress.commit)
    pw.io.subscribe(answers, on_change=nothing)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    progress.end(finished=True)


if __name__ == "__main__":
    main()
