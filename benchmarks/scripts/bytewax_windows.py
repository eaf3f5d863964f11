"""bytewax's sliding window over two CSV lanes, in two processes, sampled as it runs; prints JSON.

Run in the stream peers' environment by the part `spark-windows`: FOLDER SIZE SLIDE SECONDS, where
size and slide are in milliseconds. bytewax reads ahead, so what counts is what was folded: a row is
folded into size/slide windows.
"""

import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import bytewax.operators as op
from bytewax.connectors.files import DirSource
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition

PROCESSES = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TALLY = struct.Struct("q")
SLOTS = 16
"""More than there are processes: each adds up in a place of its own."""
NOTED_EVERY = 1000
"""Folds between two notes of their number, so that counting costs next to nothing."""
PERIOD = 0.5


def main():
    folder, size, slide, seconds = sys.argv[1], *map(int, sys.argv[2:])
    with tempfile.NamedTemporaryFile() as tally:
        tally.write(bytes(SLOTS * TALLY.size))
        tally.flush()
        told = {"FOLDER": folder, "SIZE": str(size), "SLIDE": str(slide), "TALLY": tally.name}
        module = Path(__file__).stem
        run = [sys.executable, "-m", "bytewax.testing", "-p", str(PROCESSES)]
        flow = subprocess.Popen(
            # Not interrupted for snapshots, as nothing is to be recovered.
            [*run, "--snapshot-interval", "3600", f"{module}:make_flow()"],
            cwd=Path(__file__).parent,
            env=os.environ | told,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            samples, finished = watch(flow, Tally(tally.name), size // slide, seconds)
        finally:
            if flow.poll() is None:
                os.killpg(flow.pid, signal.SIGKILL)
                flow.wait()
    json.dump({"samples": samples, "finished": finished}, sys.stdout)


def watch(flow, tally, ratio, seconds):
    """(Second, rows folded) again and again, from the first row on."""
    begun, samples = None, [[0.0, 0]]
    while flow.poll() is None:
        time.sleep(PERIOD)
        rows = tally.total() / ratio
        now = time.monotonic()
        if begun is None and rows:
            begun, samples = now, [[0.0, rows]]
        elif begun is not None:
            samples.append([now - begun, rows])
            if now - begun > seconds:
                return samples, False
    if flow.returncode:
        raise SystemExit(f"bytewax exited with {flow.returncode}")
    return samples, True


class Tally:
    """Numbers that processes share: each writes one, all can be added up."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def note(self, slot, number):
        TALLY.pack_into(self._memory, slot * TALLY.size, number)

    def total(self):
        return sum(number for (number,) in TALLY.iter_unpack(self._memory))


class Nowhere(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Nothing()


class Nothing(StatelessSinkPartition):
    def write_batch(self, items):
        pass


def make_flow():
    """The flow as each of the processes runs it."""
    size, slide = int(os.environ["SIZE"]), int(os.environ["SLIDE"])
    # A batch is read before any of it is folded: keep it short where folding takes long.
    batch = max(10, 60_000 // (size // slide))
    flow = Dataflow("readings")
    lines = op.input("lines", flow, DirSource(Path(os.environ["FOLDER"]), "*.csv", batch))
    clock = windowing.EventClock(
        lambda reading: EPOCH + timedelta(milliseconds=reading[0]),
        wait_for_system_duration=timedelta(seconds=2),
        # Or the watermark would go on with the clock on the wall and leave slow readings behind.
        now_getter=lambda: EPOCH,
        to_system_utc=lambda _: None,
    )
    hop = windowing.SlidingWindower(
        length=timedelta(milliseconds=size), offset=timedelta(milliseconds=slide), align_to=EPOCH
    )
    readings = op.map("parse", lines, parse)
    folded = windowing.fold_window("fold", readings, clock, hop, nothing, folder(), merge)
    op.output("nowhere", folded.down, Nowhere())
    return flow


def parse(line):
    key, moment, value = line.split(",")
    return key, (int(moment), float(value))


def nothing():
    return 0, 0.0, float("inf"), float("-inf")


def folder():
    tally, slot, folds = Tally(os.environ["TALLY"]), os.getpid() % SLOTS, 0

    def fold(state, reading):
        nonlocal folds
        folds += 1
        if folds % NOTED_EVERY == 0:
            tally.note(slot, folds)
        count, total, low, high = state
        value = reading[1]
        return count + 1, total + value, min(low, value), max(high, value)

    return fold


def merge(one, other):
    return one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])


if __name__ == "__main__":
    main()
