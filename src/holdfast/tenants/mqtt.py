"""A bridge to an MQTT broker: updates in, updates out, actions out.

In: JSON as HTTP takes it, on PREFIX/in/TENANT/OBJECT/STREAM; acknowledged when it is in the log.
Out: every update on PREFIX/out/TENANT/OBJECT/STREAM, at least once. Who may use which topic is the
broker's to decide: give its users the topics of their tenant and of what is shared with them.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import HoldfastError
from holdfast.sources.extras import require
from holdfast.tenants.registry import Tenant
from holdfast.tenants.service import Service, read_updates
from holdfast.wire.addresses import Address

if TYPE_CHECKING:
    from paho.mqtt.client import Client

__all__ = ["MqttBridge"]

AT_ONCE: Final = 500
PATIENCE: Final = 10.0
LOOK: Final = 1.0

logger = logging.getLogger(__name__)


class MqttBridge:
    def __init__(self, service: Service, broker: str, prefix: str = "holdfast") -> None:
        require("paho.mqtt", "--mqtt", "mqtt")
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self._service = service
        self._prefix = prefix
        self._address = Address.of(broker)
        self._end = threading.Event()
        self._bell = threading.Event()
        self.refused = 0
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"holdfast-{prefix}",
            clean_session=False,
            manual_ack=True,
        )
        client.on_connect = self._subscribe
        client.on_message = self._take
        self._client = client
        self._silence = service.listen(lambda _: self._bell.set())
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)

    def start(self) -> None:
        self._client.connect_async(self._address.host, self._address.port, keepalive=20)
        self._client.loop_start()
        self._thread.start()

    def stop(self) -> None:
        self._silence()
        self._end.set()
        self._bell.set()
        self._thread.join(PATIENCE)
        self._client.disconnect()
        self._client.loop_stop()

    def send(self, topic: str, body: bytes) -> None:
        """Returns when the broker has it."""
        message = self._client.publish(f"{self._prefix}/{topic}", body, qos=1)
        message.wait_for_publish(PATIENCE)
        if not message.is_published():
            raise ConnectionError(f"the broker at {self._address} did not take it")

    def _subscribe(self, client: Client, *_: Any) -> None:
        client.subscribe(f"{self._prefix}/in/+/+/+", qos=1)

    def _take(self, client: Client, _: Any, message: Any) -> None:
        path = message.topic.removeprefix(f"{self._prefix}/in/")
        tenant = self._tenant(path.partition("/")[0])
        try:
            if tenant is None:
                raise HoldfastError(f"there is no tenant for {path}")
            updates = read_updates(message.payload)
            self._service.publish(tenant, path, updates)
        except HoldfastError as error:
            # It would be refused again: it is let go, and counted.
            self.refused += 1
            logger.warning("mqtt: %s: %s", path[:200], error)
        except Exception:
            logger.exception("mqtt: %s: not acknowledged, it will come again", path[:200])
            return
        client.ack(message.mid, message.qos)

    def _tenant(self, name: str) -> Tenant | None:
        return self._service.registry.named(name)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                if self._client.is_connected() and self._forward() == AT_ONCE:
                    continue
            except Exception:
                logger.exception("mqtt: will be tried again")
            self._bell.wait(LOOK)
            self._bell.clear()

    def _forward(self) -> int:
        """Updates that were settled since the last ones that the broker has."""
        database = self._service.database
        rows = database.rows("SELECT position FROM progress WHERE name = 'mqtt'")
        done = int(rows[0][0]) if rows else 0
        found = database.rows(
            "SELECT position, path, body FROM updates WHERE position > ? AND late = 0 "
            "ORDER BY position, path, number LIMIT ?",
            (done, AT_ONCE),
        )
        if len(found) == AT_ONCE and found[0][0] != found[-1][0]:
            # Those of one position go together: what is noted is a position.
            found = [row for row in found if row[0] != found[-1][0]]
        elif len(found) == AT_ONCE:
            found = database.rows(
                "SELECT position, path, body FROM updates WHERE position = ? AND late = 0",
                (found[0][0],),
            )
        for _, path, body in found:
            self.send(f"out/{path}", body.encode())
        if found:
            with database.transaction() as work:
                work.run(
                    "INSERT INTO progress (name, position) VALUES ('mqtt', ?) "
                    "ON CONFLICT (name) DO UPDATE SET position = excluded.position",
                    (found[-1][0],),
                )
        return len(found)
