"""Updates come in by a real broker and go out by it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from queue import Queue
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from harness.ports import free_port
from holdfast.tenants.mqtt import MqttBridge
from tests.sources.brokers import broker
from tests.sources.rig import wait_for
from tests.tenants.rig import SHARED, derived, simple
from tests.tenants.test_http import Site, put


def test_in_and_out_by_a_broker(tmp_path: Path) -> None:
    site = Site(tmp_path / "state")
    ann, ben = site.add("ann"), site.add("ben")
    put(ann, "o", a={**simple(n="number"), **SHARED})
    put(ben, "p", b=derived({"a": "ann/o/a"}, {"n": "a.n + 1.0"}))
    port = free_port()
    got: Queue[tuple[str, Any]] = Queue()
    with broker(port, tmp_path / "broker"):
        client = Client(CallbackAPIVersion.VERSION2)
        client.on_message = lambda _, __, m: got.put((m.topic, json.loads(m.payload)))
        subscribed = threading.Event()
        client.on_subscribe = lambda *_: subscribed.set()
        client.connect("127.0.0.1", port)
        client.loop_start()
        client.subscribe("holdfast/out/#", qos=1)
        assert subscribed.wait(30)
        bridge = MqttBridge(site.service, f"127.0.0.1:{port}")
        bridge.start()
        try:
            before = site.service.log.end

            def is_in() -> bool:
                for path, body in (
                    ("ann/o/a", b'{"timestamp": 5, "offset": 0, "channels": {"n": 1.5}}'),
                    ("ann/o/a", b"no json"),
                    ("ben/p/b", b'{"channels": {"n": 1}}'),
                    ("eve/o/a", b'{"channels": {"n": 1}}'),
                ):
                    client.publish(f"holdfast/in/{path}", body, qos=1).wait_for_publish(30)
                return site.service.log.end > before and bridge.refused >= 3

            wait_for(is_in)
            site.settle()
            messages = dict(got.get(timeout=30) for _ in range(2))
            assert messages["holdfast/out/ann/o/a"]["values"] == {"n": 1.5}
            assert messages["holdfast/out/ben/p/b"]["values"] == {"n": 2.5}
            # Said again and again, it is in the log once.
            assert site.service.log.end == before + 1
        finally:
            bridge.stop()
            client.disconnect()
            client.loop_stop()
            site.service.database.close()
