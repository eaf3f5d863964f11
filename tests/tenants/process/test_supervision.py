"""An engine that fails is seen by everybody, and started again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.tenants import TenantServer
from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError
from holdfast.tenants.process import service as service_module
from holdfast.tenants.process import serving as supervision
from holdfast.tenants.process.client import Client, RefusedByServerError
from holdfast.tenants.process.engine.storing import StoredBatch
from holdfast.tenants.process.serving import (
    LONGEST_BACKOFF_SECONDS,
    Supervisor,
    backoff_seconds,
    default_memory,
    serve,
)
from tests.tenants.process.rig import derived, simple
from tests.tenants.process.test_http import Site, publish, put


class FakeEngine:
    def __init__(self) -> None:
        self.failed: str | Exception | None = None
        self.stopped = False
        self.hangs = False
        self.killed = threading.Event()

    def failure(self) -> str | None:
        if self.hangs:
            self.killed.wait(60)
            raise OSError("gone")
        if isinstance(self.failed, Exception):
            raise self.failed
        return self.failed

    def kill(self) -> None:
        self.killed.set()

    def stop(self) -> None:
        self.stopped = True


class FakeSpark:
    """Starts engines, or fails to."""

    def __init__(self) -> None:
        self.engines: list[FakeEngine] = []
        self.broken = 0

    def __call__(self) -> FakeEngine:
        if self.broken:
            self.broken -= 1
            raise RuntimeError("no port")
        self.engines.append(FakeEngine())
        return self.engines[-1]


@pytest.mark.parametrize("failed", ["the query ended", OSError("gone")])
def test_a_failed_engine_is_told_and_replaced(failed: str | Exception) -> None:
    spark = FakeSpark()
    pauses: list[int] = []

    def pause(failures: int) -> float:
        pauses.append(failures)
        return 0.01

    supervisor = Supervisor(spark, pause)
    supervisor.start()
    try:
        assert supervisor.trouble() == ""
        spark.broken = 2
        spark.engines[0].failed = failed
        wait_for("the next engine", lambda: supervisor.told()["restarts"] == 1, 10)
        assert spark.engines[0].stopped
        assert len(spark.engines) == 2
        # The failure, and the two starts that came to nothing.
        assert pauses == [1, 2, 3]
        assert supervisor.told()["last_failure"] == "Spark cannot be started: RuntimeError: no port"
        assert supervisor.told()["state"] == "running"
    finally:
        supervisor.stop()
    assert spark.engines[1].stopped
    assert supervisor.trouble() != ""


def test_an_engine_that_does_not_answer_is_ended_and_replaced() -> None:
    spark = FakeSpark()
    supervisor = Supervisor(spark, lambda _: 0.01, answer_seconds=0.2)
    supervisor.start()
    try:
        spark.engines[0].hangs = True
        wait_for("the next engine", lambda: supervisor.told()["restarts"] == 1, 20)
        assert spark.engines[0].killed.is_set()
        assert spark.engines[0].stopped
        assert supervisor.told()["last_failure"].startswith("Spark has not answered for 0 seconds")
    finally:
        supervisor.stop()


def test_an_engine_that_stores_nothing_is_ended_and_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "HANGS_SECONDS", 0.0)
    spark, waited = FakeSpark(), [0.0]
    supervisor = Supervisor(spark, lambda _: 0.01, lambda: waited[0])
    supervisor.start()
    try:
        waited[0] = 1_000.0
        wait_for("the next engine", lambda: spark.engines[0].killed.is_set(), 20)
        waited[0] = 0.0
        wait_for("the next engine", lambda: supervisor.told()["restarts"] >= 1, 20)
        assert supervisor.told()["last_failure"].startswith("nothing was stored for")
        assert supervisor.trouble() == ""
    finally:
        supervisor.stop()


def test_pauses_grow_to_a_bound() -> None:
    pauses = [backoff_seconds(n) for n in range(1, 2000)]
    assert pauses[:3] == [1.0, 2.0, 4.0]
    assert max(pauses) == LONGEST_BACKOFF_SECONDS


def test_a_first_start_that_fails_is_the_callers() -> None:
    spark = FakeSpark()
    spark.broken = 1
    with pytest.raises(RuntimeError, match="no port"):
        Supervisor(spark).start()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def test_without_an_engine_writes_are_refused_and_reads_go_on(site: Site) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    publish(ann, "ann/o/a", {"timestamp": 1, "channels": {"n": 1}})
    site.settle()
    end = site.service.log.end
    site.service.engine_trouble = lambda: "Spark's JVM is gone"
    update = {"channels": {"n": 2}}
    for answer in (
        ann.post("/v1/streams/ann/o/a/updates", json=update),
        ann.put("/v1/objects/p", json={"streams": {}}),
        ann.delete("/v1/objects/o"),
        ann.post("/v1/objects/o/actions/x", json={}),
    ):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "JVM is gone" in answer.json()["error"]
    assert site.service.log.end == end
    assert ann.get("/v1/streams/ann/o/a/last").json()["values"] == {"n": 1.0}
    health = ann.get("/health")
    assert health.status_code == 503
    assert health.json()["trouble"] == "Spark's JVM is gone"
    site.service.engine_trouble = lambda: ""
    assert ann.get("/health").status_code == 200
    publish(ann, "ann/o/a", update)


def test_batches_count_and_not_how_far_the_whole_log_is(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a tenant has a backlog, all entries up to some old one are settled for a long time."""
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    publish(ann, "ann/o/a", {"channels": {"n": 1}})
    now = [1000.0]
    monkeypatch.setattr(service_module.time, "monotonic", lambda: now[0])
    for _ in range(10):
        now[0] += service_module.STALLED_SECONDS - 1
        site.service.stored(StoredBatch(0, {}, {}, {}, {}))
        assert site.service.position < site.service.log.end
        assert ann.get("/health").status_code == 200
        publish(ann, "ann/o/a", {"channels": {"n": 1}})
    now[0] += service_module.STALLED_SECONDS + 1
    assert ann.get("/health").status_code == 503


def test_an_engine_that_stores_nothing_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    site.settle()
    now = [1000.0]
    monkeypatch.setattr(service_module.time, "monotonic", lambda: now[0])
    # Nothing was to be done for a day: that is not a stall, nor is what has come just now.
    now[0] += 86_400
    assert site.service.trouble() == ""
    publish(ann, "ann/o/a", {"channels": {"n": 1}})
    assert site.service.trouble() == ""
    now[0] += service_module.STALLED_SECONDS + 1
    assert "no batch was stored for 121 seconds" in site.service.trouble()
    assert site.service.waited() == service_module.STALLED_SECONDS + 1
    assert ann.get("/health").status_code == 503
    site.settle()
    assert site.service.trouble() == ""


def test_the_heap_is_a_size(tmp_path: Path) -> None:
    assert 1024 <= int(default_memory().removesuffix("m")) <= 8192
    for wrong in ("2", "2gb", "0g", "-1g", "2g --conf x=y"):
        with pytest.raises(InvalidArgumentError, match="--memory"):
            serve(tmp_path / "state", memory=wrong)


def test_spark_killed_is_seen_and_started_again(tmp_path: Path) -> None:
    """Writes are refused, reads go on, and what was acknowledged is calculated once."""
    server = TenantServer(tmp_path / "state", "--memory", "600m")
    client = Client(server.address, server.add("ann"))
    server.start()
    try:
        command = Path(f"/proc/{server.spark_pid()}/cmdline").read_bytes().split(b"\0")
        assert b"-Xmx600m" in command
        assert b"-XX:+ExitOnOutOfMemoryError" in command
        total = derived({"a": "a", "me": "total"}, {"n": "a.n + (me._present ? me.n : 0.0)"})
        client.put("o", {"streams": {"a": simple(n="number"), "total": total}})
        client.publish("ann/o/a", {"n": 1.0}, timestamp=1)
        server.wait_settled()
        client.publish("ann/o/a", {"n": 2.0}, timestamp=2)
        first = server.kill_spark()

        def refused() -> RefusedByServerError | None:
            try:
                client.publish("ann/o/a", {"n": 2.0}, timestamp=2, offset=1)
            except RefusedByServerError as error:
                return error
            return None

        error = wait_for("a refusal", refused, 10)
        assert (error.status, error.retry_after) == (503, 5)
        status, told = server.health_with_status()
        assert status == 503
        assert "JVM is gone" in told["engine"]["reason"]
        assert client.last("ann/o/a")["values"]["n"] in (1.0, 2.0)
        wait_for("Spark again", lambda: server.health() is not None, 120)
        assert server.spark_pid() != first
        assert server.health_with_status()[1]["engine"]["restarts"] == 1
        client.publish("ann/o/a", {"n": 3.0}, timestamp=3, offset=2)
        server.wait_settled()
        totals = [each["values"]["n"] for each in client.updates("ann/o/total")]
        assert totals == [1.0, 3.0, 6.0]
    finally:
        server.stop()
