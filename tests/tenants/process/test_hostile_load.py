"""A tenant beside a hostile one, counted in batches, so that no clock decides.

On Spark and over HTTP, `make soak PART=tenants_fairness` does the same with a clock.
"""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from harness.hostile import CHAIN, chain
from holdfast.errors import QuotaError
from holdfast.tenants.machine.documents import ServiceObject
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.engine.storing import run_batch
from holdfast.tenants.process.registry import Tenant
from holdfast.tenants.process.service import Published, Service
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import derived, simple

PATIENCE = 120
ROUNDS = 15
MOST_BATCHES = 3
"""The one that runs, the one that a change is waited for, and its own."""


class _Hostile(threading.Thread):
    """Changes documents and publishes bursts as fast as it is let."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._tenant = Tenant("eve", Quotas())
        self.over = threading.Event()
        self.refused = self.accepted = 0

    def run(self) -> None:
        for n in count():
            if self.over.is_set():
                return
            self._try(
                self._service.put,
                self._tenant,
                "p",
                _document({"s": simple(**{f"x{n}": "number"})}),
            )
            burst = [Published({"x": float(n)}, n * 1000 + at) for at in range(1000)]
            self._try(self._service.publish, self._tenant, "eve/chain/s", burst)

    def _try(self, do: Any, *given: Any) -> None:
        try:
            do(*given)
            self.accepted += 1
        except QuotaError:
            self.refused += 1


def _document(streams: dict[str, Any]) -> ServiceObject:
    return msgspec.convert({"streams": streams}, ServiceObject)


class _Engine(threading.Thread):
    """Settles batch after batch, as the query on Spark does."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self.over = threading.Event()
        self.batches = 0

    def run(self) -> None:
        planner = Planner(self._service.database)
        while not self.over.is_set():
            plan = run_batch(self._service.database, planner)
            if plan is None:
                self.over.wait(0.005)
                continue
            self.batches += 1
            self._service.settled(plan.settled)


def test_a_tenant_waits_for_a_few_batches_whatever_another_sends(tmp_path: Path) -> None:
    service = Service.open(tmp_path / "state")
    ben = Tenant("ben", Quotas())
    mine = {"s": simple(x="number"), "d": derived({"p": "s"}, {"x": "p.x"})}
    service.put(ben, "o", _document(mine))
    service.put(Tenant("eve", Quotas()), "chain", msgspec.convert(chain(), ServiceObject))
    engine, hostile = _Engine(service), _Hostile(service)
    engine.start()
    hostile.start()
    waited = []
    try:
        wait_for(lambda: hostile.refused > 0, PATIENCE)
        for at in range(1, ROUNDS + 1):
            before = engine.batches
            service.publish(ben, "ben/o/s", [Published({"x": float(at)}, at)])

            def is_there(at: int = at) -> bool:
                rows = service.database.rows("SELECT following FROM numbers WHERE path = 'ben/o/d'")
                return bool(rows) and rows[0][0] >= at

            wait_for(is_there, PATIENCE)
            waited.append(engine.batches - before)
    finally:
        for each in (hostile, engine):
            each.over.set()
            each.join()
    # Some more may have been stored before it was looked for.
    assert sorted(waited)[ROUNDS // 2] <= MOST_BATCHES, waited
    # Eve was served meanwhile, and has more than could be.
    rows = service.database.rows(
        "SELECT following FROM numbers WHERE path = ?", (f"eve/chain/c{CHAIN - 1}",)
    )
    assert rows
    assert service.position < service.log.end
    service.database.close()
