"""Time until a replica that has lost its disk has its state and its log again, from a peer.

The source is in this process; each replica is a process of its own with its own Spark. One replica
is filled, then the other is started with an empty folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.processes import usage_of
from benchmarks.report import Report
from harness.ports import free_port
from harness.processes import Family, spark_environment
from harness.waiting import wait_for
from holdfast.errors import HoldfastError
from holdfast.pipeline.process.source import SourceParty
from holdfast.pipeline.topology import Topology
from holdfast.transport.client import act

__all__ = ["Copied", "copy_log", "copy_state", "report_copies"]

PATIENCE: Final = 3600.0
WIDTH: Final = 1000
"""Bytes of text in a row of the log."""
AT_ONCE: Final = 500_000
"""Rows of keys that are brought at once."""
SHARDS: Final = 16
STATE: Final = (
    'steps = [{ window = { keys = ["name"], size = "6h", slide = "6h", '
    'aggregates = ["count() AS n", "sum(value) AS total"] } }]'
)
LOG: Final = 'steps = [{ where = "value >= 0" }]'


@dataclass(frozen=True)
class Copied:
    """Seconds are from the time when the second replica is ready to ask."""

    state: int
    """Bytes."""
    log: int
    """Bytes."""
    copy_made: float
    """Seconds until the peer has made its copy."""
    taken: float
    """Seconds until all pieces are there."""
    back: float
    """Seconds until it is installed and the replica publishes."""
    log_there: float
    """Seconds until its log begins where that of the peer does."""
    peer_before: int
    """Bytes resident, before the copy."""
    peer_peak: int
    own_peak: int


class _Pair:
    """Two replicas of one stage with one source."""

    def __init__(self, folder: Path, steps: str, schema: pa.Schema) -> None:
        kinds = {"int64": "bigint"}
        fields = ", ".join(
            f'{field.name} = "{kinds.get(str(field.type), str(field.type))}"' for field in schema
        )
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        text = "\n".join(
            [
                'name = "copies"',
                'bucket = "2s"',
                "[streams.rows]",
                'source = "push"',
                f'address = "127.0.0.1:{free_port()}"',
                f"schema = {{ {fields} }}",
                "[stages.kept]",
                'inputs = ["rows"]',
                f"replicas = {json.dumps(addresses)}",
                f"shards = {SHARDS}",
                steps,
                # It never runs, so nothing of the log is let go of.
                "[sinks.out]",
                'stream = "kept"',
                'sink = "console"',
            ]
        )
        self.folder = folder
        self.file = folder / "copies.toml"
        self.file.write_text(text)
        self.topology = Topology.read(self.file)
        self.source = SourceParty(self.topology, "rows", schema)
        self.processes: dict[str, Family] = {}

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "holdfast", "node", str(self.file), name]
        command += ["--master", "local[1]"]
        environment = spark_environment(self.folder)
        log = f"{name.replace('/', '-')}.log"
        self.processes[name] = Family(command, self.folder, environment, log=log)

    def status(self, name: str) -> dict[str, Any]:
        process = self.processes[name]
        if process.status is not None:
            raise AssertionError(f"{name} has ended: {process.tail()}")
        address = self.topology.parties()[name].address
        assert address is not None
        with suppress(HoldfastError, ValueError):
            said: dict[str, Any] = json.loads(act(address, None, "status", b"", timeout=10))
            return said
        return {}

    def resident(self, name: str) -> int:
        return usage_of(self.processes[name].leader.pid).resident

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        self.source.close()


@contextmanager
def _pair(steps: str, schema: pa.Schema) -> Iterator[_Pair]:
    with TemporaryDirectory(prefix="holdfast-copies-") as folder, ExitStack() as stack:
        pair = _Pair(Path(folder), steps, schema)
        stack.callback(pair.close)
        pair.start("kept/1")
        wait_for("the first replica", lambda: _is_stable(pair, "kept/1"), PATIENCE, 1.0)
        yield pair


def copy_state(keys: int, progress: Callable[[str], None]) -> Copied:
    """Copy a state with so many keys."""
    schema = pa.schema([("name", pa.int64()), ("value", pa.int64())])
    with _pair(STATE, schema) as pair:
        begun = time.monotonic()
        for first in range(0, keys, AT_ONCE):
            names = np.arange(first, min(first + AT_ONCE, keys)) * 1_000_003
            pair.source.take(pa.table({"name": names, "value": names % 1000}, schema=schema))
            _wait_for_all(pair)
        progress(f"{keys:,} keys are in the state after {time.monotonic() - begun:.0f} s")
        return _copy(pair, progress)


def copy_log(size: int, progress: Callable[[str], None]) -> Copied:
    """Copy a log with so many bytes of rows."""
    schema = pa.schema([("text", pa.string()), ("value", pa.int64())])
    random = np.random.default_rng(1)
    with _pair(LOG, schema) as pair:
        begun = time.monotonic()
        left = size // WIDTH
        while left:
            rows = min(left, 50_000)
            # Letters that no compression makes small.
            letters = random.integers(97, 123, rows * WIDTH, dtype=np.uint8).tobytes().decode()
            texts = [letters[at : at + WIDTH] for at in range(0, len(letters), WIDTH)]
            pair.source.take(pa.table({"text": texts, "value": [1] * rows}, schema=schema))
            left -= rows
            _wait_for_all(pair)
        progress(f"{size / 1e6:,.0f} MB were published after {time.monotonic() - begun:.0f} s")
        return _copy(pair, progress)


def _wait_for_all(pair: _Pair) -> None:
    """Until the first replica has done all that was brought."""
    now = time.time() * 1e6
    wait_for(
        "the first replica to have done it",
        lambda: pair.status("kept/1").get("boundary", 0) > now,
        PATIENCE,
        0.2,
    )


def _copy(pair: _Pair, progress: Callable[[str], None]) -> Copied:
    before = pair.resident("kept/1")
    pair.start("kept/2")
    wait_for("the second replica", lambda: pair.status("kept/2").get("ready"), PATIENCE, 0.1)
    begun = time.monotonic()
    peaks = {"kept/1": before, "kept/2": 0}
    made = taken = back = log_there = moment = 0.0
    while not (back and log_there):
        for name in peaks:
            peaks[name] = max(peaks[name], pair.resident(name))
        own, peer = pair.status("kept/2"), pair.status("kept/1")
        passed = time.monotonic() - begun
        if passed > PATIENCE:
            raise AssertionError(f"the copy takes longer than {PATIENCE:g} s: {own}")
        if not made and "copy_size" in own:
            made = passed
            progress(f"the peer has made its copy after {passed:.1f} s")
        if not taken and made and own["copy_bytes"] == own["copy_size"]:
            taken, moment = passed, time.time() * 1e6
            progress(f"{own['copy_size'] / 1e6:,.1f} MB were taken after {passed:.1f} s")
        # Only the installed state can have brought it past this moment. It may be behind, as its
        # peer is where a batch takes longer than a bucket.
        if not back and taken and own["state"] != "FAILURE" and own["boundary"] > moment:
            back = passed
            progress(f"the replica publishes after {passed:.1f} s")
        if not log_there and taken and own.get("start", 0) <= peer.get("start", -1):
            log_there = passed
            progress(f"its log is there after {passed:.1f} s")
        time.sleep(0.1)
    size, log = own["copy_size"], own["log_bytes"]
    return Copied(size, log, made, taken, back, log_there, before, peaks["kept/1"], peaks["kept/2"])


def _is_stable(pair: _Pair, name: str) -> bool:
    return pair.status(name).get("state") == "STABLE"


def report_copies(report: Report, keys: tuple[int, ...], logs: tuple[int, ...]) -> None:
    """`keys`: of the states. `logs`: bytes of the logs."""
    states = [copy_state(each, report.progress) for each in keys]
    published = [copy_log(each, report.progress) for each in logs]
    columns = [
        "what",
        "state, MB",
        "log, MB",
        "copy made, s",
        "all pieces there, s",
        "publishes, s",
        "log there, s",
        "peer before, MiB",
        "peer at most, MiB",
        "own at most, MiB",
    ]
    named = [*(f"{each:,} keys" for each in keys), *(f"{each / 1e6:,.0f} MB" for each in logs)]
    rows = [
        [
            name,
            each.state / 1e6,
            each.log / 1e6,
            each.copy_made,
            each.taken,
            each.back,
            each.log_there,
            each.peer_before / 2**20,
            each.peer_peak / 2**20,
            each.own_peak / 2**20,
        ]
        for name, each in zip(named, [*states, *published], strict=True)
    ]
    report.table("a replica that has lost its disk gets state and log of its peer", columns, rows)
    report.claim(
        "time per key until redundancy is back, large state against small",
        (states[-1].back / keys[-1]) / (states[0].back / keys[0]),
        1.5,
        f"{keys[0]:,} keys",
        at_least=False,
    )
    report.claim(
        "time per byte until the log is back, large log against small",
        (published[-1].log_there / logs[-1]) / (published[0].log_there / logs[0]),
        1.5,
        f"{logs[0] / 1e6:,.0f} MB",
        at_least=False,
    )
