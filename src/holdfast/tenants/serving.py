"""Process of `holdfast serve`: the query on Spark, HTTP, deliveries and MQTT."""

from __future__ import annotations

import logging
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import uvicorn

from holdfast.errors import InvalidArgumentError
from holdfast.parties.guard import FolderGuard
from holdfast.tenants.brokers import Broker
from holdfast.tenants.deliveries import Deliveries
from holdfast.tenants.engine.caution import Caution
from holdfast.tenants.engine.query import start_query, write_place
from holdfast.tenants.http.app import create_app
from holdfast.tenants.http.connections import ConnectionBounds
from holdfast.tenants.retention import Retention
from holdfast.tenants.service import Service
from holdfast.tenants.supervision import Supervisor
from holdfast.topology.addresses import is_loopback
from holdfast.wire.addresses import Address

__all__ = ["SparkEngine", "default_memory", "serve"]

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

logger = logging.getLogger("holdfast")


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
            from holdfast.tenants.mqtt import MqttBridge

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
        loop="holdfast.tenants.http.loops:new_loop",
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
