"""What `holdfast serve` does: the query on Spark, HTTP, deliveries and MQTT, in one process."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import uvicorn

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.parties.guard import FolderGuard
from holdfast.tenants.brokers import Broker
from holdfast.tenants.deliveries import Deliveries
from holdfast.tenants.engine.query import start_query, write_place
from holdfast.tenants.http.app import create_app
from holdfast.tenants.retention import Retention
from holdfast.tenants.service import Service
from holdfast.topology.addresses import is_loopback
from holdfast.wire.addresses import Address

__all__ = ["EngineEndedError", "serve"]

LOOK: Final = 0.5

logger = logging.getLogger("holdfast")


class EngineEndedError(HoldfastError):
    """The query cannot go on; started again, it goes on from its folder."""


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
    from holdfast.spark.sessions import driver_pid, local_session, stop_session

    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with ExitStack() as stack:
        guard = stack.enter_context(FolderGuard(folder))
        service = Service.open(folder, database, webhook_hosts=frozenset(webhook_hosts))
        stack.callback(service.database.close)
        write_place(folder, database or str(folder / "store.db"))
        spark = local_session("holdfast tenants", master=master, partitions=1)
        stack.callback(stop_session, spark)
        guard.note_spark(driver_pid(spark))
        query = start_query(spark, folder, service.database, service.stored)
        stack.callback(query.stop)
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
        _listen(service, query, address, certificate, key)


def _listen(
    service: Service, query: Any, address: Address, certificate: Path | None, key: Path | None
) -> None:
    config = uvicorn.Config(
        create_app(service),
        host=address.host,
        port=address.port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=65_536,
        limit_concurrency=2000,
    )
    server = uvicorn.Server(config)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK):
            if not query.isActive:
                server.should_exit = True
                return

    watcher = threading.Thread(target=watch, name="watch", daemon=True)
    watcher.start()
    logger.info("serving on %s", address)
    server.run()
    ended.set()
    watcher.join()
    failure = query.exception()
    if failure is not None:
        raise EngineEndedError(f"the query on Spark ended: {str(failure)[:500]}")
