"""Updates come in by a real broker and go out by it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from starlette.testclient import TestClient

from harness.ports import free_port
from holdfast.errors import InvalidArgumentError
from holdfast.tenants.process.mqtt import Broker, MqttBridge
from holdfast.transport.addresses import Address
from tests.pipeline.sources.brokers import broker
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import SHARED, derived, simple
from tests.tenants.process.test_http import Site, put


@contextmanager
def client_of(port: int, **login: str) -> Iterator[tuple[Client, Queue[tuple[str, Any]]]]:
    """Somebody who has subscribed to all that goes out."""
    got: Queue[tuple[str, Any]] = Queue()
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    if login:
        client.username_pw_set(**login)
    client.on_message = lambda _, __, m: got.put((m.topic, json.loads(m.payload)))
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe("holdfast/out/#", qos=1)
    assert subscribed.wait(30)
    try:
        yield client, got
    finally:
        client.disconnect()
        client.loop_stop()


@contextmanager
def bridged(site: Site, broker: Broker) -> Iterator[MqttBridge]:
    bridge = MqttBridge(site.service, broker)
    bridge.start()
    try:
        yield bridge
    finally:
        bridge.stop()


def token_of(client: TestClient) -> str:
    return str(client.headers["authorization"].removeprefix("Bearer "))


def say(client: Client, path: str, body: Any, token: str | None = None) -> None:
    properties = Properties(PacketTypes.PUBLISH)
    if token is not None:
        properties.UserProperty = ("token", token)
    data = body if isinstance(body, bytes) else json.dumps(body)
    client.publish(f"holdfast/in/{path}", data, 1, properties=properties).wait_for_publish(30)


def test_in_and_out_by_a_broker(tmp_path: Path) -> None:
    site = Site(tmp_path / "state")
    ann, ben = site.add("ann"), site.add("ben")
    put(ann, "o", a={**simple(n="number"), **SHARED})
    shared = {**derived({"a": "ann/o/a"}, {"n": "a.n + 1.0"}), **SHARED}
    put(ben, "p", b=shared, secret=derived({"a": "ann/o/a"}, {"n": "a.n + 2.0"}))
    port = free_port()
    update = {"timestamp": 5, "offset": 0, "channels": {"n": 1.5}}
    with (
        broker(port, tmp_path / "broker"),
        client_of(port) as (client, got),
        bridged(site, Broker(Address("127.0.0.1", port))) as bridge,
    ):
        wait_for(lambda: not bridge.trouble)
        before = site.service.log.end
        for token in (None, "wrong", token_of(ben)):
            say(client, "ann/o/a", update, token)
        say(client, "ann/o/a", {**update, "token": "wrong"})
        say(client, "ann/o/a", {**update, "token": 7})
        say(client, "ann/o/a", b"no json", token_of(ann))
        say(client, "ben/p/b", update, token_of(ben))
        say(client, "eve/o/a", update, token_of(ann))
        wait_for(lambda: bridge.refused == 8)
        assert site.service.log.end == before
        say(client, "ann/o/a", update, token_of(ann))
        say(client, "ann/o/a", {**update, "token": token_of(ann)})
        say(client, "ann/o/a", {"updates": [update], "token": token_of(ann)})
        wait_for(lambda: site.service.log.end > before)
        site.settle()
        messages = [got.get(timeout=30) for _ in range(2)]
        assert [(topic, told["values"]) for topic, told in messages] == [
            ("holdfast/out/ann/o/a", {"n": 1.5}),
            ("holdfast/out/ben/p/b", {"n": 2.5}),
        ]
        # Said again and again, it is in the log once; what is not for everybody did not go out.
        assert site.service.log.end == before + 1
        wait_for(lambda: noted(site) == before + 1)
        assert got.empty()
        health = ann.get("/health").json()["mqtt"]
        assert health == {"trouble": "", "refused": 8}
    site.service.database.close()


def noted(site: Site) -> int:
    rows = site.service.database.rows("SELECT position FROM progress WHERE name = 'mqtt'")
    return int(rows[0][0]) if rows else 0


def test_a_guarded_broker_wants_a_name_and_a_password(tmp_path: Path) -> None:
    site = Site(tmp_path / "state")
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    port = free_port()
    with broker(port, tmp_path / "broker", users={"bridge": "right", "ann": "hers"}):
        address = Address("127.0.0.1", port)
        with bridged(site, Broker(address, "bridge", "wrong", guarded=True)) as refused:
            wait_for(lambda: "refuses us" in refused.trouble)
        with (
            client_of(port, username="ann", password="hers") as (client, got),
            bridged(site, Broker(address, "bridge", "right", guarded=True)) as bridge,
        ):
            wait_for(lambda: not bridge.trouble)
            before = site.service.log.end
            say(client, "ann/o/a", {"channels": {"n": 1.5}})
            wait_for(lambda: site.service.log.end > before)
            # A token that is given has to be right all the same.
            say(client, "ann/o/a", {"channels": {"n": 2.5}}, "wrong")
            wait_for(lambda: bridge.refused == 1)
            site.settle()
            topic, told = got.get(timeout=30)
            assert (topic, told["values"]) == ("holdfast/out/ann/o/a", {"n": 1.5})
    site.service.database.close()


def test_tokens_do_not_go_to_other_machines_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="--mqtt-authority"):
        Broker.of("broker.example.org:1883", None, None)
    monkeypatch.delenv("HOLDFAST_MQTT_PASSWORD", raising=False)
    with pytest.raises(InvalidArgumentError, match="HOLDFAST_MQTT_PASSWORD"):
        Broker.of("127.0.0.1:1883", "bridge", None)
