"""Process of `holdfast serve`: the supervised query on Spark, HTTP, deliveries, MQTT."""

from __future__ import annotations

import logging
import os
import re
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import uvicorn

from holdfast.config.addresses import is_loopback
from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.storage.lock_file import FolderGuard
from holdfast.tenants.process.deliveries import Deliveries
from holdfast.tenants.process.engine.caution import Caution
from holdfast.tenants.process.engine.query import start_query, write_place
from holdfast.tenants.process.http.app import create_app
from holdfast.tenants.process.http.connections import ConnectionBounds
from holdfast.tenants.process.mqtt import Broker
from holdfast.tenants.process.retention import Retention
from holdfast.tenants.process.service import Service
from holdfast.transport.addresses import Address

POLL_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 60.0
HEALTHY_SECONDS: Final = 60.0
"""An engine that ran for so long failed for a new reason: the back-off begins anew."""
STOP_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 120.0
"""An engine that takes longer to say how it does hangs."""
HANGS_SECONDS: Final = 600.0
"""An engine that stores nothing for so long, while entries wait, hangs too."""

logger = logging.getLogger("holdfast")


class Engine(Protocol):
    """A running session with its query."""

    def failure(self) -> str | None:
        """The reason why it does not run any more; None while it does."""

    def kill(self) -> None:
        """End it at once, whatever it does; what was asked of it then fails."""

    def stop(self) -> None:
        """Release everything, whatever has failed already."""


def backoff_seconds(failures: int) -> float:
    """Pause after so many failures in a row."""
    return min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10))


class Supervisor:
    """Runs an engine in a thread of its own. The first start is the caller's: what is wrong with
    the machine or the options shows at once."""

    def __init__(
        self,
        start: Callable[[], Engine],
        pause: Callable[[int], float] = backoff_seconds,
        waited: Callable[[], float] = lambda: 0.0,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`waited`: the seconds for which entries have waited and nothing was stored."""
        self._start = start
        self._pause = pause
        self._waited = waited
        self._answer_seconds = answer_seconds
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._reason = "it has not been started"
        self._last_failure = ""
        self._restarts = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._running(self._start())
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._note("the server ends")
        if self._engine is not None:
            self._engine.stop()

    def trouble(self) -> str:
        """The reason why nothing is calculated now; empty while the engine runs."""
        return self._reason

    def told(self) -> dict[str, Any]:
        """State of the engine, for /health."""
        with self._lock:
            return {
                "state": "restarting" if self._reason else "running",
                "reason": self._reason,
                "restarts": self._restarts,
                "last_failure": self._last_failure,
            }

    def _run(self) -> None:
        failures = 0
        while not self._end.is_set():
            began = time.monotonic()
            reason = self._watch()
            if reason is None:
                return
            failures = 1 if time.monotonic() - began > HEALTHY_SECONDS else failures + 1
            self._failed(reason)
            while not self._end.wait(self._pause(failures)):
                try:
                    self._running(self._start())
                    break
                except Exception as error:
                    # Nothing that Spark raises may end the supervision.
                    failures += 1
                    self._failed(f"Spark cannot be started: {_text(error)}")

    def _watch(self) -> str | None:
        """The failure of the engine; None when asked to end."""
        engine, began = self._engine, time.monotonic()
        assert engine is not None
        # In a thread of its own: what is asked of a JVM that hangs comes back when that ends.
        asking = ThreadPoolExecutor(1, "engine-state")
        try:
            while not self._end.wait(POLL_SECONDS):
                reason = self._state(asking, engine)
                waited = min(self._waited(), time.monotonic() - began)
                if reason is None and waited > HANGS_SECONDS:
                    reason = _ended(engine, f"nothing was stored for {waited:.0f} seconds")
                if reason is not None:
                    return reason
            return None
        finally:
            asking.shutdown(wait=False, cancel_futures=True)

    def _state(self, asking: ThreadPoolExecutor, engine: Engine) -> str | None:
        try:
            return asking.submit(engine.failure).result(self._answer_seconds)
        except TimeoutError:
            return _ended(engine, f"Spark has not answered for {self._answer_seconds:.0f} seconds")
        except Exception as error:
            return _text(error)

    def _running(self, engine: Engine) -> None:
        with self._lock:
            if self._reason and self._last_failure:
                self._restarts += 1
            self._engine, self._reason = engine, ""

    def _failed(self, reason: str) -> None:
        logger.error("the engine has failed and is started again: %s", reason)
        self._note(reason[:500])
        with self._lock:
            engine, self._engine = self._engine, None
            self._last_failure = reason[:500]
        if engine is not None:
            try:
                engine.stop()
            except Exception:
                logger.exception("the engine could not be stopped in order")

    def _note(self, reason: str) -> None:
        with self._lock:
            self._reason = reason


def _ended(engine: Engine, reason: str) -> str:
    with suppress(OSError):
        engine.kill()
    return f"{reason}; its JVM was ended"


def _text(error: Exception) -> str:
    said = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    return said[:500]


ON_EXHAUSTION: Final = "-XX:+ExitOnOutOfMemoryError"
"""A JVM that has run out of memory goes on with some of its threads gone: better none."""
CONTAINER_LIMITS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)

MOST_CONNECTIONS: Final = 2_000
OTHER_FILES: Final = 256
"""Open files beside connections."""
BACKLOG: Final = 128
"""Connections that are taken at once."""


class SparkEngine:
    """The session and the query on it; an `Engine` for the supervisor."""

    def __init__(
        self,
        service: Service,
        folder: Path,
        guard: FolderGuard,
        master: str,
        memory: str,
        caution: int,
    ) -> None:
        from holdfast.spark.sessions import driver_pid, end_driver, local_session

        self._spark = local_session(
            "holdfast tenants", master=master, partitions=1, java=ON_EXHAUSTION, memory=memory
        )
        try:
            self._pid = driver_pid(self._spark)
            guard.note_spark(self._pid)
            self._query = start_query(
                self._spark, folder, service.database, service.stored, caution=caution
            )
        except BaseException:
            end_driver(self._spark)
            raise

    def failure(self) -> str | None:
        from holdfast.spark.sessions import DRIVER_GONE

        try:
            if self._query.isActive:
                return None
            failed = self._query.exception()
        except DRIVER_GONE:
            return "Spark's JVM is gone: it was killed, or had too little memory (see --memory)"
        return f"the query on Spark ended: {str(failed)[:400]}"

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def stop(self) -> None:
        from holdfast.spark.sessions import end_driver

        with suppress(Exception):
            self._query.stop()
        end_driver(self._spark)


def default_memory() -> str:
    """A quarter of the memory of the machine, or of the container: 1 to 8 GiB."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in CONTAINER_LIMITS:
        with suppress(OSError, ValueError):
            sizes.append(int(Path(limit).read_text()))
    return f"{max(1024, min(8192, min(sizes) // 4 >> 20))}m"


def serve(
    folder: Path,
    *,
    listen: str = "127.0.0.1:8080",
    database: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    webhook_hosts: Sequence[str] = (),
    broker: Broker | None = None,
    master: str = "local[2]",
    memory: str | None = None,
) -> None:
    """Until it is asked to end. Everybody needs a token, on loopback too: it says who they are."""
    address = Address.of(listen)
    if (certificate is None) != (key is None):
        raise InvalidArgumentError("--certificate and --key go together")
    if certificate is None and not is_loopback(address.host):
        raise InvalidArgumentError(
            f"--listen: {address.host} can be reached from other machines; add --certificate and "
            "--key, or listen on 127.0.0.1"
        )
    if memory is not None and re.fullmatch(r"[1-9][0-9]*[mg]", memory) is None:
        raise InvalidArgumentError(f"--memory: {memory[:40]!r} is no size; write 2g or 1500m")
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with ExitStack() as stack:
        guard = stack.enter_context(FolderGuard(folder))
        service = Service.open(folder, database, webhook_hosts=frozenset(webhook_hosts))
        stack.callback(service.database.close)
        write_place(folder, database or str(folder / "store.db"))
        heap = memory or default_memory()
        caution = Caution(service.database)
        supervisor = Supervisor(
            lambda: SparkEngine(service, folder, guard, master, heap, caution.before_start()),
            waited=service.waited,
        )
        stack.callback(supervisor.stop)
        supervisor.start()
        service.tells["engine"] = lambda: {**supervisor.told(), "caution": caution.level}
        service.engine_trouble = supervisor.trouble
        bridge = None
        if broker is not None:
            from holdfast.tenants.process.mqtt import MqttBridge

            bridge = MqttBridge(service, broker)
            bridge.start()
            stack.callback(bridge.stop)
        deliveries = Deliveries(service, None if bridge is None else bridge.send)
        deliveries.start()
        stack.callback(deliveries.stop)
        retention = Retention(service, has_broker=bridge is not None)
        retention.start()
        stack.callback(retention.stop)
        _listen(service, address, certificate, key)


def _listen(service: Service, address: Address, certificate: Path | None, key: Path | None) -> None:
    bounds = ConnectionBounds(_most_connections())
    service.tells["connections"] = bounds.told
    config = uvicorn.Config(
        create_app(service),
        host=address.host,
        port=address.port,
        http=bounds,  # type: ignore[arg-type]
        ws="none",
        loop="holdfast.tenants.process.http.connections:new_loop",
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        # What strangers send wrong is no news, and one line for each would fill the disk.
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=65_536,
        backlog=BACKLOG,
        limit_concurrency=MOST_CONNECTIONS + BACKLOG + 1,
    )
    logger.info("serving on %s", address)
    uvicorn.Server(config).run()


def _most_connections() -> int:
    """As many as there may be, or as open files leave room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST_CONNECTIONS + OTHER_FILES
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(MOST_CONNECTIONS, soft - OTHER_FILES))
