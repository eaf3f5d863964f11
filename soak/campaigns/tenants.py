"""A server of tenants killed with kill -9 while they publish and change their streams."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from harness.tenants import TenantServer
from holdfast.tenants.client import Client, RefusedByServerError

DESCRIPTION = "tenants publish and change streams, the server is killed: nothing lost or doubled"

UPDATES = 120
KILLS = 2


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
    ben.put("p", {"streams": {"total": _total("a.n"), "count": _total("1.0")}})
    publisher = _Publisher(ann)
    publisher.start()
    changes = 0
    for _ in range(kills):
        publisher.wait_for(publisher.sent + rng.randrange(10, 30))
        # A stream comes and goes meanwhile.
        _until_done(lambda: ben.put("q", {"streams": {"twice": _twice()}}))
        changes += 1
        server.kill()
        server.start()
    publisher.join()
    server.wait_settled()
    _check(ann, ben)
    return f"{kills} kills, {changes} changes, {UPDATES} updates, {publisher.repeated} said twice"


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


def _twice() -> dict[str, Any]:
    return {
        "channels": {"n": {"type": "number", "expression": "2.0 * a.n"}},
        "inputs": {"a": {"stream": "ann/o/a"}},
    }


def _check(ann: Client, ben: Client) -> None:
    published = [each["values"]["n"] for each in ann.updates("ann/o/a", limit=1000)]
    assert published == [float(n) for n in range(UPDATES)], published
    totals = [each["values"]["n"] for each in ben.updates("ben/p/total", limit=1000)]
    assert totals == [float(n * (n + 1) // 2) for n in range(UPDATES)], totals
    counts = [each["values"]["n"] for each in ben.updates("ben/p/count", limit=1000)]
    assert counts == [float(n + 1) for n in range(UPDATES)], counts
    twice = [each["values"]["n"] for each in ben.updates("ben/q/twice", limit=1000)]
    # From where it was added, without a gap.
    assert twice == [2.0 * n for n in range(UPDATES - len(twice), UPDATES)], twice
    assert twice
