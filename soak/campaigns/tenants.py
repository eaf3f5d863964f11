"""A server of tenants killed with kill -9 while they publish, add, change and remove streams."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from harness.tenants import TenantServer
from holdfast.tenants.client import Client, RefusedByServerError

USES_SPARK = True
DESCRIPTION = "tenants publish and change streams, the server is killed: nothing lost or doubled"

UPDATES = 120
KILLS = 2
WINDOW = 10


def run(seed: int, kills: int = KILLS) -> str:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        server = TenantServer(Path(folder) / "state")
        tokens = {name: server.add(name) for name in ("ann", "ben")}
        server.start()
        try:
            return _run(server, tokens, rng, kills)
        finally:
            server.stop()


def _run(server: TenantServer, tokens: dict[str, str], rng: random.Random, kills: int) -> str:
    ann, ben = (Client(server.address, tokens[name], timeout=20) for name in ("ann", "ben"))
    number = {"channels": {"n": {"type": "number"}}}
    ann.put("o", {"streams": {"a": {**number, "access": {"allow": ["ben"]}}}})
    steady = {"total": _total("a.n"), "count": _total("1.0"), "recent": _recent()}
    ben.put("p", {"streams": steady})
    publisher = _Publisher(ann)
    publisher.start()
    changer = _Changer(Client(server.address, tokens["ben"], timeout=20), rng.randrange(1000))
    changer.start()
    for _ in range(kills):
        publisher.wait_for(publisher.sent + rng.randrange(10, 30))
        server.kill()
        server.start()
    publisher.join()
    changer.end()
    server.wait_settled()
    _check(ann, ben)
    return (
        f"{kills} kills, {changer.changes} changes, {UPDATES} updates, "
        f"{publisher.repeated} said twice"
    )


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
    deadline = time.monotonic() + 120
    while True:
        try:
            return ask()
        except RefusedByServerError:
            raise
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
