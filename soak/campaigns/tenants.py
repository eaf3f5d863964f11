"""A server of tenants, or Spark's JVM alone, killed with kill -9 while tenants publish, add, change
and remove streams; and a JVM with too small a heap."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from harness.hostile import Attack, AttackProcess
from harness.tenants import TenantServer
from harness.verified_tenants import check_store
from holdfast.tenants.process.client import Client, RefusedByServerError

USES_SPARK = True
DESCRIPTION = "tenants publish and change streams, the server is killed: nothing lost or doubled"

FOR_NOW = (429, 503)
"""Statuses of what may succeed later: beyond the rate, and without an engine."""
PATIENCE = 120.0
UPDATES = 120
KILLS = 2
WINDOW = 10
LONGEST_ATTACK = 900.0

SERVER, JVM = "server", "jvm"
SMALL_HEAP_EVERY = 5
"""Of so many seeds, one is about too small a heap."""
HOSTILE_EVERY = 3
"""Of so many seeds, one has hostile tenants beside."""


def run(seed: int, kills: int = KILLS, faults: Sequence[str] = (SERVER, JVM)) -> str:
    if seed % SMALL_HEAP_EVERY == SMALL_HEAP_EVERY - 1:
        return run_with_small_heap()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        server = TenantServer(Path(folder) / "state")
        tokens = {name: server.add(name) for name in ("ann", "ben", "eve", "mal")}
        server.start()
        attack = None
        try:
            if seed % HOSTILE_EVERY == 0:
                eve, mal = tokens["eve"], tokens["mal"]
                attack = AttackProcess(Attack(server.port, eve, mal, LONGEST_ATTACK, 100, seed))
            said = _run(server, tokens, rng, [rng.choice(faults) for _ in range(kills)])
        finally:
            told = None if attack is None else attack.stop()
            server.stop()
        if told is not None:
            right = check_store(server.folder / "store.db", ("eve", "mal"))
            said += f"; {right:,} results of hostile tenants are right, answers {told['answers']}"
        return said


def kill_jvm(server: TenantServer) -> None:
    """Kill Spark's JVM alone, and wait until the server has started another one."""
    killed = server.kill_spark()
    deadline = time.monotonic() + PATIENCE
    while server.spark_pid() == killed or server.health() is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"Spark was not started again: {server.health_with_status()}")
        time.sleep(0.1)


def _run(
    server: TenantServer, tokens: dict[str, str], rng: random.Random, faults: Sequence[str]
) -> str:
    ann, ben = (Client(server.address, tokens[name], timeout=20) for name in ("ann", "ben"))
    number = {"channels": {"n": {"type": "number"}}}
    ann.put("o", {"streams": {"a": {**number, "access": {"allow": ["ben"]}}}})
    steady = {"total": _total("a.n"), "count": _total("1.0"), "recent": _recent()}
    ben.put("p", {"streams": steady})
    publisher = _Publisher(ann)
    publisher.start()
    changer = _Changer(Client(server.address, tokens["ben"], timeout=20), rng.randrange(1000))
    changer.start()
    for fault in faults:
        publisher.wait_for(publisher.sent + rng.randrange(10, 30))
        # Any point of a batch: being planned, calculated, handed over, stored.
        time.sleep(rng.uniform(0.0, 0.5))
        if fault == JVM:
            kill_jvm(server)
        else:
            server.kill()
            server.start()
    publisher.join()
    changer.end()
    # Not until all is settled: hostile tenants may have a backlog.
    _wait_for_last(ben)
    _check(ann, ben)
    return (
        f"{len(faults)} kills ({' '.join(faults)}), {changer.changes} changes, {UPDATES} updates, "
        f"{publisher.repeated} said twice"
    )


def _wait_for_last(client: Client) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    for stream in ("p/total", "p/count", "p/recent", "q/scaled"):
        while True:
            last = _until_done(partial(client.updates, f"ben/{stream}", since=UPDATES))
            if last:
                break
            assert time.monotonic() < deadline, f"the last result of {stream} did not come"
            time.sleep(0.2)


HEAP = "100m"
WIDE, LONG = 200, 60
"""Streams that take one of long strings, and updates of it."""


def run_with_small_heap() -> str:
    """Spark runs out of memory, again and again; batches get smaller until all is calculated."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "conf"
        settings.mkdir()
        # Spark refuses heaps that are too small to work with, unless it is told otherwise.
        (settings / "spark-defaults.conf").write_text("spark.testing.memory 1073741824\n")
        server = TenantServer(Path(folder) / "state", "--memory", HEAP)
        client = Client(server.address, server.add("ann"), timeout=20)
        before = os.environ.get("SPARK_CONF_DIR")
        os.environ["SPARK_CONF_DIR"] = str(settings)
        try:
            server.start()
            return _overflow(server, client)
        finally:
            server.stop()
            del os.environ["SPARK_CONF_DIR"]
            if before is not None:
                os.environ["SPARK_CONF_DIR"] = before


def _overflow(server: TenantServer, client: Client) -> str:
    copies = {
        f"c{n}": {
            "channels": {"t": {"type": "string", "expression": "s.t"}},
            "inputs": {"s": {"stream": "s"}},
        }
        for n in range(WIDE)
    }
    client.put("o", {"streams": {"s": {"channels": {"t": {"type": "string"}}}, **copies}})
    texts = [str(n).ljust(1000, "x") for n in range(LONG)]
    for n, text in enumerate(texts):
        _until_done(partial(client.publish, "ann/o/s", {"t": text}, timestamp=n + 1, offset=n))
    deadline = time.monotonic() + 4 * PATIENCE
    while True:
        told = server.health_with_status()[1]
        if told["settled"] >= told["log"]:
            break
        if time.monotonic() > deadline:
            raise AssertionError(f"it does not go on by itself: {told}")
        time.sleep(0.5)
    for name in copies:
        found = [each["values"]["t"] for each in client.updates(f"ann/o/{name}", limit=1000)]
        assert found == texts, name
    engine = told["engine"]
    return f"heap of {HEAP}: {engine['restarts']} restarts, caution {engine['caution']}"


class _Publisher(threading.Thread):
    """Publishes with offsets of its own, again and again until each is acknowledged."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self.sent = 0
        self.repeated = 0

    def run(self) -> None:
        for n in range(UPDATES):
            self._publish(n)
            self.sent = n + 1

    def wait_for(self, count: int) -> None:
        while self.sent < min(count, UPDATES) and self.is_alive():
            time.sleep(0.01)

    def _publish(self, n: int) -> None:
        def publish() -> Any:
            return self._client.publish("ann/o/a", {"n": float(n)}, timestamp=n + 1, offset=n)

        (receipt,) = _until_done(publish)
        self.repeated += receipt["duplicate"]


class _Changer(threading.Thread):
    """Adds, changes and removes streams over the same updates, all the while."""

    def __init__(self, client: Client, seed: int) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._rng = random.Random(seed)
        self._over = threading.Event()
        self.changes = 0

    def run(self) -> None:
        documents = cycle({"streams": {"scaled": _scaled(factor)}} for factor in (3.0, 2.0))
        while not self._over.wait(self._rng.uniform(0.02, 0.2)):
            self._do(partial(self._client.put, "q", next(documents)))
            self._do(partial(self._client.put, "r", {"streams": {"brief": _scaled(1.0)}}))
            self._do(partial(self._client.delete, "r"))

    def end(self) -> None:
        self._over.set()
        self.join()

    def _do(self, ask: Any) -> None:
        try:
            _until_done(ask)
        except RefusedByServerError as error:
            # The answer to a removal was lost in a kill: it is gone already.
            if error.status != 404:
                raise
        self.changes += 1


def _until_done(ask: Any) -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except RefusedByServerError as error:
            if error.status not in FOR_NOW or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _total(added: str) -> dict[str, Any]:
    expression = f"{added} + (me._present ? me.n : 0.0)"
    return {
        "channels": {"n": {"type": "number", "expression": expression}},
        "inputs": {
            "a": {"stream": "ann/o/a"},
            "me": {"stream": "total" if "a.n" in added else "count"},
        },
    }


def _scaled(factor: float) -> dict[str, Any]:
    return {
        "channels": {"n": {"type": "number", "expression": f"{factor} * (a.n + 1.0)"}},
        "inputs": {"a": {"stream": "ann/o/a"}},
    }


def _recent() -> dict[str, Any]:
    """The sum of the last ten."""
    return {
        "channels": {"n": {"type": "number", "expression": "window.total"}},
        "inputs": {"a": {"stream": "ann/o/a"}},
        "aggregate": {
            "input": "a",
            "count": WINDOW,
            "fields": {"total": {"function": "sum", "of": "a.n"}},
        },
    }


def _check(ann: Client, ben: Client) -> None:
    published = [each["values"]["n"] for each in ann.updates("ann/o/a", limit=1000)]
    assert published == [float(n) for n in range(UPDATES)], published
    totals = [each["values"]["n"] for each in ben.updates("ben/p/total", limit=1000)]
    assert totals == [float(n * (n + 1) // 2) for n in range(UPDATES)], totals
    counts = [each["values"]["n"] for each in ben.updates("ben/p/count", limit=1000)]
    assert counts == [float(n + 1) for n in range(UPDATES)], counts
    recent = [each["values"]["n"] for each in ben.updates("ben/p/recent", limit=1000)]
    assert recent == [float(sum(range(max(0, n - WINDOW + 1), n + 1))) for n in range(UPDATES)], (
        recent
    )
    scaled = [each["values"]["n"] for each in ben.updates("ben/q/scaled", limit=1000)]
    # From where it was added, without a gap, each by what the stream said at its place in the log.
    assert scaled
    for n, value in zip(range(UPDATES - len(scaled), UPDATES), scaled, strict=True):
        assert value in (2.0 * (n + 1), 3.0 * (n + 1)), scaled
    assert ben.errors("ben/q/scaled") == []
    assert [each["stream"] for each in ben.streams()] == [
        f"ben/{name}" for name in ("p/count", "p/recent", "p/total", "q/scaled")
    ]
