"""Messages of an MQTT broker: JSON objects, or lists of them.

A message is acknowledged when its rows are on disk. What was not acknowledged when the connection
broke comes again: each message gets into the log at least once.
"""

from __future__ import annotations

import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.json

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.sources.inlets import Inlet, as_read, parsed
from holdfast.pipeline.topology import Mqtt, parse_address
from holdfast.runtime.extras import require
from holdfast.transport.mqtt import BrokerThread

if TYPE_CHECKING:
    from paho.mqtt.client import Client


AT_ONCE = 4096
"""Messages that are taken in together."""
BREATH = 0.02
"""Seconds that the first of them waits for others."""
LOOK = 0.1
KEEP_ALIVE = 20
"""Seconds without a word after which the broker is taken for gone."""

logger = logging.getLogger(__name__)


def rows_of(payloads: Sequence[bytes], schema: pa.Schema) -> tuple[pa.Table, int]:
    """The rows in these messages, and how many messages have none that fit the schema."""
    lines, malformed = [], 0
    for payload in payloads:
        try:
            lines.append(_lines(payload))
        except ValueError:
            malformed += 1
    try:
        return _read(b"".join(lines), schema), malformed
    except (pa.ArrowException, ValueError):
        tables = [schema.empty_table()]
        for line in lines:
            try:
                tables.append(_read(line, schema))
            except (pa.ArrowException, ValueError):
                malformed += 1
        return pa.concat_tables(tables), malformed


def _lines(payload: bytes) -> bytes:
    """A line for each object; raises ValueError if there is anything else."""
    try:
        said = json.loads(payload)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    objects = said if isinstance(said, list) else [said]
    if not all(isinstance(each, dict) for each in objects):
        raise ValueError("no object")
    return b"".join(json.dumps(each, allow_nan=False).encode() + b"\n" for each in objects)


def _read(lines: bytes, schema: pa.Schema) -> pa.Table:
    if not lines:
        return schema.empty_table()
    options = pa.json.ParseOptions(
        explicit_schema=as_read(schema), unexpected_field_behavior="ignore"
    )
    # One block: a line may not be longer than one.
    reading = pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    table = pa.json.read_json(io.BytesIO(lines), read_options=reading, parse_options=options)
    return parsed(table, schema)


@dataclass(frozen=True, slots=True)
class _Message:
    connection: int
    mid: int
    qos: int
    payload: bytes


class MqttBringer:
    """Keeps a session with the broker, which holds messages back while nobody is there."""

    def __init__(self, stream: str, client_id: str, source: Mqtt, schema: pa.Schema) -> None:
        require("paho.mqtt.client", f"streams.{stream}.source: mqtt", "mqtt")
        self._stream = stream
        self._client_id = client_id
        self._source = source
        self._schema = schema
        self._password = self._read_password()
        self._messages: SimpleQueue[_Message] = SimpleQueue()
        self._connection = 0
        """The number of the present one: what another one brought is not acknowledged on it, for
        it may be called otherwise there."""
        self._trouble = ""
        self._say_in_touch: Callable[[bool], None] = lambda is_so: None

    def bring(self, inlet: Inlet) -> None:
        self._say_in_touch = inlet.say_in_touch
        self._say_in_touch(False)
        client = self._client()
        thread = BrokerThread(client, self._unreachable)
        thread.start()
        try:
            while not inlet.stopping.is_set():
                messages = list(self._wait())
                if messages:
                    self._take(client, messages, inlet)
        finally:
            thread.stop()

    def _wait(self) -> Iterator[_Message]:
        """The messages that are there, after the first with a breath for more."""
        try:
            yield self._messages.get(timeout=LOOK)
            end = time.monotonic() + BREATH
            for _ in range(AT_ONCE - 1):
                yield self._messages.get(timeout=max(0, end - time.monotonic()))
        except Empty:
            return

    def _take(self, client: Client, messages: Sequence[_Message], inlet: Inlet) -> None:
        table, malformed = rows_of([message.payload for message in messages], self._schema)
        if malformed:
            inlet.counts["malformed_messages"] += malformed
            logger.warning("%s: %d messages do not fit the schema", self._stream, malformed)
        inlet.take(table)
        inlet.counts["messages"] += len(messages)
        for message in messages:
            if message.connection == self._connection:
                client.ack(message.mid, message.qos)

    def _client(self) -> Client:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        client = Client(
            CallbackAPIVersion.VERSION2, self._client_id, clean_session=False, manual_ack=True
        )
        if self._source.username is not None:
            client.username_pw_set(self._source.username, self._password)
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_subscribe = self._subscribed
        client.on_message = self._received
        host, port = parse_address(self._source.broker)
        client.connect_async(host, port, KEEP_ALIVE)
        return client

    # Called by the thread that serves the client.

    def _unreachable(self, reason: str) -> None:
        self._report(f"no connection to the broker {self._source.broker}: {reason}")

    def _connected(self, client: Client, _: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._connection += 1
        if reason.is_failure:
            self._report(f"the broker {self._source.broker} refuses us: {reason}")
            return
        self._trouble = ""
        client.subscribe([(topic, 1) for topic in self._source.topics])

    def _disconnected(
        self, client: Client, _: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        self._connection += 1
        self._say_in_touch(False)
        if reason.is_failure:
            self._unreachable(str(reason))

    def _subscribed(
        self, client: Client, _: Any, mid: int, reasons: Sequence[Any], properties: Any
    ) -> None:
        for topic, reason in zip(self._source.topics, reasons, strict=False):
            if reason.is_failure:
                self._report(f"the broker refuses the topic {topic}: {reason}")
        self._say_in_touch(not any(reason.is_failure for reason in reasons))

    def _received(self, client: Client, _: Any, message: Any) -> None:
        self._messages.put(
            _Message(self._connection, message.mid, message.qos, bytes(message.payload))
        )

    def _report(self, trouble: str) -> None:
        if trouble != self._trouble:
            logger.warning("%s: %s", self._stream, trouble)
        self._trouble = trouble

    def _read_password(self) -> str | None:
        name = self._source.password_env
        if name is None:
            return None
        if name not in os.environ:
            raise InvalidArgumentError(
                f"streams.{self._stream}.password_env: the environment has no {name}; "
                "set it to the password"
            )
        return os.environ[name]
