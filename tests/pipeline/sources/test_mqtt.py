"""Messages of a real broker: each gets into the log at least once, whoever is killed."""

from __future__ import annotations

import builtins
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.sources import open_source
from holdfast.pipeline.sources.mqtt import rows_of
from holdfast.pipeline.topology import Mqtt, Topology
from tests.pipeline.sources.brokers import broker
from tests.pipeline.sources.rig import Taker, alone, running, wait_for

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def of_broker(folder: Path, port: int, **settings: Any) -> Topology:
    source = Mqtt(broker=f"127.0.0.1:{port}", topics=["a/#"], schema={"n": "bigint"}, **settings)
    return alone(folder, source)


@contextmanager
def publishing(port: int) -> Iterator[Callable[[str, bytes], None]]:
    """Publish a message; returns when the broker has it."""
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()

    def publish(topic: str, payload: bytes) -> None:
        client.publish(topic, payload, qos=1).wait_for_publish(60)

    try:
        yield publish
    finally:
        client.disconnect()
        client.loop_stop()


def found(party: Taker) -> list[int]:
    return [n for table in list(party.tables) for n in table["n"].to_pylist()]


def is_subscribed(party: Taker, publish: Callable[[str, bytes], None]) -> None:
    """The broker holds nothing for those whom it does not know."""

    def heard() -> bool:
        publish("a/hello", b'{"n": -1}')
        return -1 in found(party)

    wait_for(heard)


def test_messages_become_rows(tmp_path: Path) -> None:
    port = free_port()
    party = Taker()
    with (
        broker(port, tmp_path / "broker"),
        running(of_broker(tmp_path, port), party) as driver,
        publishing(port) as publish,
    ):
        is_subscribed(party, publish)
        for n in range(200):
            publish(f"a/{n % 3}", json.dumps({"n": n, "more": "x"}).encode())
            if n % 50 == 0:
                publish("a/bad", b"no json")
                publish("b/other", b'{"n": 1000}')
        publish("a/list", b'[{"n": 200}, {"n": 201}]')
        wait_for(lambda: 201 in found(party))
        assert [n for n in found(party) if n >= 0] == list(range(202))
        assert driver.counts["malformed_messages"] == 4
        assert driver.failure is None


def test_silence_means_something_only_while_the_broker_is_there(tmp_path: Path) -> None:
    port = free_port()
    party = Taker()
    with running(of_broker(tmp_path, port), party):
        wait_for(lambda: not party.in_touch)
        with broker(port, tmp_path / "broker"):
            wait_for(lambda: party.in_touch)
        wait_for(lambda: not party.in_touch)


def test_what_was_not_taken_in_comes_again(tmp_path: Path) -> None:
    """A message that the log had not taken when the source ended was not acknowledged."""
    port = free_port()
    topology = of_broker(tmp_path, port)
    taking = threading.Event()

    class Stuck(Taker):
        def take(self, table: pa.Table, place: Any = None) -> None:
            if taking.is_set() and len(table):
                self.full = 1
            super().take(table, place)

    with broker(port, tmp_path / "broker"), publishing(port) as publish:
        party: Taker = Stuck()
        with running(topology, party):
            is_subscribed(party, publish)
            taking.set()
            for n in range(5):
                publish("a/x", json.dumps({"n": n}).encode())
        # Nobody is there.
        for n in range(5, 10):
            publish("a/x", json.dumps({"n": n}).encode())
        party = Taker()
        with running(topology, party):
            wait_for(lambda: set(range(10)) <= set(found(party)))


def test_a_broker_may_be_killed(tmp_path: Path) -> None:
    port = free_port()
    party = Taker()
    with running(of_broker(tmp_path, port), party) as driver:
        for life in range(2):
            # It was not there when the source was started, nor when it had been killed.
            with broker(port, tmp_path / "broker") as process:
                with publishing(port) as publish:
                    if not life:
                        is_subscribed(party, publish)
                    for n in range(10):
                        publish("a/x", json.dumps({"n": 10 * life + n}).encode())
                wait_for(lambda last=10 * life + 9: last in found(party))
                process.kill()
        assert driver.failure is None
    assert set(range(20)) <= set(found(party))


def test_rows_of_messages() -> None:
    table, malformed = rows_of(
        [
            b'{"n": 1, "at": "2026-03-01T12:00:00Z"}',
            b'{"n": "one"}',
            b'{"n": 2, "at": "2026-03-01 12:00:00", "x": [1]}',
            b"[]",
            b'[{"n": 3}, {"n": 4}]',
            b'[{"n": 3}, 4]',
            b'{"n": 5, "at": "soon"}',
            b'{"n": 1e400}',
            b"NaN",
            b"",
            b"\xff",
            b"[" * 100_000,
            b'{"at": null}',
        ],
        SCHEMA,
    )
    assert table["n"].to_pylist() == [1, 2, 3, 4, None]
    assert table.schema == SCHEMA
    assert malformed == 8


@given(st.lists(st.binary(max_size=40) | st.just(b'{"n": 1}'), max_size=8))
def test_no_message_does_any_harm(payloads: list[bytes]) -> None:
    table, malformed = rows_of(payloads, SCHEMA)
    assert table.schema == SCHEMA
    assert table["n"].to_pylist().count(1) >= payloads.count(b'{"n": 1}')
    assert malformed <= len(payloads) - payloads.count(b'{"n": 1}')


def test_the_password_is_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = of_broker(tmp_path, 1883, username="me", password_env="NO_SUCH_PASSWORD")
    with pytest.raises(InvalidArgumentError, match="password_env: the environment has no"):
        open_source(topology, "readings", Taker())
    monkeypatch.setenv("NO_SUCH_PASSWORD", "secret")
    assert open_source(topology, "readings", Taker()).failure is None


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def fail(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("paho"):
            raise ImportError("No module named 'paho'")
        return found(name, *rest, **named)

    monkeypatch.setattr("holdfast.runtime.extras.import_module", fail)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'holdfast\[mqtt\]'"):
        open_source(of_broker(tmp_path, 1883), "readings", Taker())
