"""Latency of one tenant while others attack the server, against the same when all is quiet."""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median, quantiles

from harness.hostile import Attack, AttackProcess
from harness.tenants import TenantServer
from harness.verified_tenants import check_store
from holdfast.tenants.process.client import Client

USES_SPARK = True
DESCRIPTION = (
    "others send 1,000 PUT/s and bursts into 150 streams: a tenant's median latency stays within "
    "3 times of quiet, and every stored result is right"
)

QUIET_SECONDS = 60.0
ATTACK_SECONDS = float(os.environ.get("ATTACK_SECONDS", "600"))
"""Ten minutes, unless the environment says less."""
BAR = 3.0
PAUSE = 0.5
"""Seconds between two updates whose way is timed, at most."""
PATIENCE = 120.0


def run(seed: int, quiet_seconds: float = QUIET_SECONDS, seconds: float = ATTACK_SECONDS) -> str:
    with tempfile.TemporaryDirectory() as folder:
        server = TenantServer(Path(folder) / "state")
        tokens = {name: server.add(name) for name in ("ben", "eve", "mal")}
        server.start()
        try:
            told = measure(server, tokens, Random(seed), quiet_seconds, seconds)
        finally:
            server.stop()
        print(told, flush=True)
        results = check_store(server.folder / "store.db", ("ben", "eve", "mal"))
    said = f"{told}; {results:,} results are right"
    assert told.ratio <= BAR, said
    return said


@dataclass(frozen=True)
class Measured:
    quiet: list[float]
    attacked: list[float]
    attack: dict[str, object]
    health: dict[str, object]

    @property
    def ratio(self) -> float:
        return median(self.attacked) / median(self.quiet)

    def __str__(self) -> str:
        return (
            f"median {median(self.quiet):.3f} s quiet ({len(self.quiet)}), "
            f"{median(self.attacked):.3f} s attacked ({len(self.attacked)}), "
            f"ratio {self.ratio:.2f}, p99 {_p99(self.quiet):.3f} and {_p99(self.attacked):.3f} s; "
            f"attack {json.dumps(self.attack)}; health {json.dumps(self.health)}"
        )


def measure(
    server: TenantServer, tokens: dict[str, str], rng: Random, quiet: float, attacked: float
) -> Measured:
    ben = Client(server.address, tokens["ben"], timeout=PATIENCE)
    number = {"type": "number"}
    twice = {
        "channels": {"x": {**number, "expression": "p.x * 2.0"}},
        "inputs": {"p": {"stream": "s"}},
    }
    ben.put("o", {"streams": {"s": {"channels": {"x": number}}, "d": twice}})
    follower = _Follower(Client(server.address, tokens["ben"], timeout=PATIENCE))
    follower.start()
    # The first batches of Spark take longer than all that follow.
    _timed(ben, follower, rng, 10.0)
    before = _timed(ben, follower, rng, quiet)
    attack = AttackProcess(
        Attack(server.port, tokens["eve"], tokens["mal"], attacked + 60, seed=rng.randrange(2**31))
    )
    try:
        under = _timed(ben, follower, rng, attacked)
        health = server.health() or {}
        assert not attack.ended, "the attack has ended before the measurement"
    finally:
        told = attack.stop()
    return Measured(before, under, told, dict(health))


class _Follower(threading.Thread):
    """Notes when results come, as events."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._came = threading.Condition()
        self.times: dict[int, float] = {}
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            for update in self._client.follow("ben/o/d"):
                with self._came:
                    self.times[update["offset"]] = time.monotonic()
                    self._came.notify_all()
        except Exception as error:
            # Raised where it is waited for.
            self.failure = error
            with self._came:
                self._came.notify_all()

    def wait(self, offset: int) -> float:
        with self._came:
            came = self._came.wait_for(
                lambda: offset in self.times or self.failure is not None, PATIENCE
            )
        if self.failure is not None:
            raise self.failure
        assert came, f"result {offset} did not come within {PATIENCE} seconds"
        return self.times[offset]


def _timed(client: Client, follower: _Follower, rng: Random, seconds: float) -> list[float]:
    """Seconds from before an update is published until its result is there, one after the other."""
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        (receipt,) = client.publish("ben/o/s", {"x": float(len(follower.times))})
        found.append(follower.wait(receipt["offset"]) - began)
        time.sleep(rng.uniform(0, PAUSE))
    return found


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]
