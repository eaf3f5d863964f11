"""Bridge to an MQTT broker: updates in, updates out, actions out.

In: JSON as HTTP takes it, on PREFIX/in/TENANT/OBJECT/STREAM; acknowledged when it is in the log. It
has to say the tenant's token: as a user property `token` (MQTT 5), or beside its channels.
Out: updates on PREFIX/out/TENANT/OBJECT/STREAM, at least once, of streams that everybody may read,
with all that is in them.
A broker that is guarded decides by itself who may use which topic: then no token is asked for, and
all streams go out that their owners may read.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.config.addresses import is_loopback
from holdfast.errors import ForbiddenError, HoldfastError, InvalidArgumentError
from holdfast.runtime.extras import require
from holdfast.tenants.machine.documents import read_as
from holdfast.tenants.process.engine.storing import progress
from holdfast.tenants.process.registry import Tenant
from holdfast.tenants.process.service import Service, read_updates
from holdfast.tenants.process.store.pages import between_positions
from holdfast.transport.addresses import Address
from holdfast.transport.mqtt import BrokerThread

if TYPE_CHECKING:
    from paho.mqtt.client import Client


PASSWORD: Final = "HOLDFAST_MQTT_PASSWORD"
"""In the environment: what is on a command line, others can read."""


@dataclass(frozen=True)
class Broker:
    address: Address
    user: str | None = None
    password: str | None = None
    authority: Path | None = None
    """For TLS."""
    guarded: bool = False
    """Whether it lets each tenant use its own topics only. If not, messages need the tenant's
    token, and only what everybody may read goes out."""

    @classmethod
    def of(
        cls, told: str, user: str | None, authority: Path | None, guarded: bool = False
    ) -> Broker:
        address = Address.of(told)
        if authority is None and not is_loopback(address.host):
            raise InvalidArgumentError(
                f"--mqtt: {address.host} is another machine, and tokens would go there in the "
                "clear; add --mqtt-authority"
            )
        password = os.environ.get(PASSWORD)
        if user is not None and password is None:
            raise InvalidArgumentError(f"--mqtt-user: set {PASSWORD} in the environment")
        return cls(address, user, password, authority, guarded)


AT_ONCE: Final = 500

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
FOR_EVER: Final = 0xFFFFFFFF
PATIENCE: Final = 10.0
LOOK: Final = 1.0

logger = logging.getLogger(__name__)


class MqttBridge:
    def __init__(self, service: Service, broker: Broker, prefix: str = "holdfast") -> None:
        require("paho.mqtt", "--mqtt", "mqtt")
        from paho.mqtt.client import Client, MQTTv5
        from paho.mqtt.enums import CallbackAPIVersion

        self._service = service
        self._prefix = prefix
        self._broker = broker
        self._end = threading.Event()
        self._bell = threading.Event()
        self._told = 0.0
        self.refused = 0
        self.trouble = "not connected yet"
        """What keeps it from the broker; empty: nothing."""
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"holdfast-{prefix}",
            protocol=MQTTv5,
            manual_ack=True,
        )
        if broker.user is not None:
            client.username_pw_set(broker.user, broker.password)
        if broker.authority is not None:
            client.tls_set(ca_certs=str(broker.authority))
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_disconnect = self._disconnected
        client.on_message = self._take
        self._client = client
        self._broker_thread = BrokerThread(client, self._unreachable)
        self._silence = service.listen(lambda _: self._bell.set())
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        service.tells["mqtt"] = self._state

    def start(self) -> None:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        # The broker keeps what comes in while this is away.
        session = Properties(PacketTypes.CONNECT)
        session.SessionExpiryInterval = FOR_EVER
        address = self._broker.address
        self._client.connect_async(
            address.host, address.port, keepalive=20, clean_start=False, properties=session
        )
        self._broker_thread.start()
        self._thread.start()

    def stop(self) -> None:
        self._silence()
        self._end.set()
        self._bell.set()
        self._thread.join(PATIENCE)
        self._broker_thread.stop()

    def send(self, topic: str, body: bytes) -> None:
        """Returns when the broker has it."""
        message = self._client.publish(f"{self._prefix}/{topic}", body, qos=1)
        message.wait_for_publish(PATIENCE)
        if not message.is_published():
            raise ConnectionError(f"the broker at {self._broker.address} did not take it")

    def _state(self) -> dict[str, Any]:
        return {"trouble": self.trouble, "refused": self.refused}

    def _connected(self, client: Client, _: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure:
            self._report(f"the broker at {self._broker.address} refuses us: {reason}")
            return
        client.subscribe(f"{self._prefix}/in/+/+/+", qos=1)

    def _subscribed(self, client: Client, _: Any, mid: int, reasons: Any, more: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._report(f"the broker at {self._broker.address} refuses {self._prefix}/in")
        else:
            self.trouble = ""

    def _disconnected(self, client: Client, _: Any, flags: Any, reason: Any, more: Any) -> None:
        if reason.is_failure and not self.trouble:
            self._unreachable(str(reason))

    def _unreachable(self, reason: str) -> None:
        self._report(f"no connection to the broker at {self._broker.address}: {reason}")

    def _report(self, trouble: str) -> None:
        if trouble != self.trouble:
            logger.warning("mqtt: %s", trouble)
        self.trouble = trouble

    def _take(self, client: Client, _: Any, message: Any) -> None:
        path = message.topic.removeprefix(f"{self._prefix}/in/")
        try:
            token, body = _signed(message)
            self._service.publish(self._tenant(path, token), path, read_updates(body))
        except HoldfastError as error:
            # It would be refused again: it is let go, and counted.
            self.refused += 1
            self._complain(path, error)
        except Exception:
            logger.exception("mqtt: %s: not acknowledged, it will come again", path[:200])
            return
        client.ack(message.mid, message.qos)

    def _complain(self, path: str, error: HoldfastError) -> None:
        """Now and then: whoever can send can send much."""
        if time.monotonic() - self._told > LOOK:
            self._told = time.monotonic()
            logger.warning("mqtt: %s: %s (%d refused so far)", path[:200], error, self.refused)

    def _tenant(self, path: str, token: str | None) -> Tenant:
        """Who speaks: never taken from the topic alone, unless the broker guards that."""
        registry, name = self._service.registry, path.partition("/")[0]
        if self._broker.guarded and token is None:
            found = registry.named(name)
        else:
            found = registry.with_token(token or "")
        if found is None or found.name != name:
            raise ForbiddenError(f"token: is missing, or not that of a tenant {name[:80]!r}")
        return found

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                if self._client.is_connected() and self._forward():
                    continue
            except Exception:
                logger.exception("mqtt: will be tried again")
            self._bell.wait(LOOK)
            self._bell.clear()

    def _forward(self) -> bool:
        """Send updates that were settled since the last ones that the broker has; answers whether
        there are more."""
        database = self._service.database
        rows = database.rows("SELECT position FROM progress WHERE name = 'mqtt'")
        done = int(rows[0][0]) if rows else 0
        # Beyond it, results of earlier entries may still come.
        end = progress(database)
        paged = between_positions(database, done, end, AT_ONCE)
        rows = database.rows(
            "SELECT position FROM updates WHERE position > ? AND position <= ? AND late = 0 "
            "ORDER BY position LIMIT 1 OFFSET ?",
            (done, end, AT_ONCE - 1),
        )
        # Those of one position go together: what is noted is a position.
        bound = min([end, *(row[0] for row in rows), *(row[0] for row in paged[AT_ONCE - 1 :][:1])])
        found = database.rows(
            "SELECT position, path, body FROM updates WHERE position > ? AND position <= ? "
            "AND late = 0 ORDER BY position, path, number",
            (done, bound),
        )
        found += [(at, path, _ENCODE(each).decode()) for at, path, each in paged if at <= bound]
        found.sort(key=lambda row: row[:2])
        outgoing = self._outgoing({path for _, path, _ in found})
        for _, path, body in found:
            if path in outgoing:
                self.send(f"out/{path}", body.encode())
        if found:
            with database.transaction() as work:
                work.run(
                    "INSERT INTO progress (name, position) VALUES ('mqtt', ?) "
                    "ON CONFLICT (name) DO UPDATE SET position = excluded.position",
                    (found[-1][0],),
                )
        return bound < end

    def _outgoing(self, paths: set[str]) -> set[str]:
        """Those of these streams that may go out, with all that is in them."""
        provenance = self._service.provenance
        if not self._broker.guarded:
            return provenance.open_to_all(paths)
        return {path for path in paths if provenance.refused(path.partition("/")[0], path) is None}


def _signed(message: Any) -> tuple[str | None, bytes]:
    """The token that a message bears, and the rest of it."""
    properties = dict(getattr(message.properties, "UserProperty", None) or ())
    if "token" in properties:
        return properties["token"], message.payload
    said = read_as(message.payload, Any)
    if not isinstance(said, dict) or "token" not in said:
        return None, message.payload
    token = said.pop("token")
    body = said["updates"] if said.keys() == {"updates"} else said
    return token if isinstance(token, str) else "", msgspec.json.encode(body)
