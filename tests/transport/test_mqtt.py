"""The thread that serves a client of a real broker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from harness.ports import free_port
from holdfast.transport.mqtt import BrokerThread
from tests.pipeline.sources.brokers import broker
from tests.transport.certificates import Authority
from tests.transport.parties import wait_for


class Echo:
    """Hears what it says itself."""

    def __init__(self, port: int, authority: Path | None = None) -> None:
        self.heard: list[bytes] = []
        self.troubles: list[str] = []
        self.client = Client(CallbackAPIVersion.VERSION2, "echo", clean_session=False)
        if authority is not None:
            self.client.tls_set(ca_certs=str(authority))
        self.client.on_connect = lambda client, *_: client.subscribe("a", qos=1)
        self.client.on_message = self.hear
        self.client.connect_async("127.0.0.1", port)
        self.thread = BrokerThread(self.client, self.troubles.append)

    def hear(self, client: Client, _: Any, message: Any) -> None:
        self.heard.append(message.payload)

    def hears(self, body: bytes) -> bool:
        """Says it until it has heard it: the first may come before it has subscribed."""
        if self.client.is_connected():
            self.client.publish("a", body, qos=1)
        time.sleep(0.05)
        return body in self.heard

    @contextmanager
    def running(self) -> Iterator[Echo]:
        self.thread.start()
        try:
            yield self
        finally:
            self.thread.stop()


def test_a_process_with_many_open_files_is_served(tmp_path: Path) -> None:
    port = free_port()
    with ExitStack() as files:
        for _ in range(1100):
            files.enter_context(open(os.devnull))
        with broker(port, tmp_path), Echo(port).running() as echo:
            wait_for(lambda: echo.hears(b"hello"))


def test_a_callback_that_raises_costs_a_connection_and_no_message(tmp_path: Path) -> None:
    dropped = []

    class Clumsy(Echo):
        def hear(self, client: Client, _: Any, message: Any) -> None:
            if len(dropped) < 2:
                dropped.append(message.payload)
                raise RuntimeError("dropped")
            super().hear(client, _, message)

    port = free_port()
    with broker(port, tmp_path), Clumsy(port).running() as echo:
        wait_for(lambda: echo.hears(b"hello"))
    assert dropped == [b"hello"] * 2


def test_why_there_is_no_connection_is_told(tmp_path: Path) -> None:
    port = free_port()
    with Echo(port).running() as echo:
        wait_for(lambda: echo.troubles)
        assert "Connection refused" in echo.troubles[0]
        with broker(port, tmp_path):
            wait_for(lambda: echo.hears(b"hello"))


def test_many_large_messages_by_tls(tmp_path: Path) -> None:
    """More than sockets hold, and more at once than a record of TLS."""
    authority = Authority("ours")
    (tmp_path / "authority").write_bytes(authority.certificate)
    port = free_port()
    with (
        broker(port, tmp_path / "broker", identity=authority.sign()),
        Echo(port, tmp_path / "authority").running() as echo,
    ):
        wait_for(lambda: echo.hears(b"hello"))
        bodies = [bytes([n]) * (n * 1000) for n in range(1, 200)]
        for body in bodies:
            echo.client.publish("a", body, qos=1)
        wait_for(lambda: echo.heard[-1] == bodies[-1])
        assert [body for body in echo.heard if body != b"hello"] == bodies


def test_its_end_does_not_wait_for_a_broker_that_is_not_there() -> None:
    with Echo(free_port()).running() as echo:
        wait_for(lambda: echo.troubles)
    assert not echo.thread._thread.is_alive()
