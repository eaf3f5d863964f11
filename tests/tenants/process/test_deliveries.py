"""Actions that updates set off reach the outside, at least once, and only where they may."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.tenants.process import deliveries as module
from holdfast.tenants.process.deliveries import Deliveries
from holdfast.tenants.process.engine import storing
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import derived, simple
from tests.tenants.process.test_http import Site, publish


class Hook(HTTPServer):
    """Somebody's server; answers 500 as often as told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any]] = []
        self.broken = 0
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/open"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Hook)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.got.append((self.headers["idempotency-key"], body))
        self.server.broken -= 1
        self.send_response(500 if self.server.broken >= 0 else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def test_an_update_sets_off_an_action_once(site: Site, hook: Hook) -> None:
    ann = site.add("ann")
    alarm = derived({"a": "a"}, {"n": "a.n"}, actions=[{"action": "all", "when": "a.n > 5.0"}])
    document = {
        "streams": {"a": simple(n="number"), "alarm": alarm},
        "actions": {
            "open": {"webhook": hook.url},
            "all": {"calls": ["open", "tell"]},
            "tell": {"mqtt": "doors"},
        },
    }
    assert ann.put("/v1/objects/o", json=document).status_code == 200
    publish(ann, "ann/o/a", *({"timestamp": n, "channels": {"n": n}} for n in (1, 6, 3)))
    site.settle()
    sent: list[tuple[str, bytes]] = []
    work = Deliveries(site.service, lambda topic, body: sent.append((topic, body)))
    while work.deliver("ann"):
        pass
    ((key, body),) = hook.got
    assert body["values"] == {"n": 6.0}
    assert key.startswith("ann/o/open:ann/o/alarm@1")
    assert [topic for topic, _ in sent] == ["ann/actions/doors"]
    calls = ann.get("/v1/calls").json()
    assert {(each["action"], each["state"]) for each in calls} == {
        (f"ann/o/{name}", "done") for name in ("all", "open", "tell")
    }


def test_what_fails_is_tried_again_and_in_the_end_given_up(
    site: Site, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = site.add("ann")
    ann.put("/v1/objects/o", json={"actions": {"open": {"webhook": hook.url}}})
    clock = [1e9]
    monkeypatch.setattr(module.time, "time", lambda: clock[0])
    work = Deliveries(site.service)
    hook.broken = 2
    assert ann.post("/v1/objects/o/actions/open", json={"by": "hand"}).status_code == 202
    for _ in range(20):
        clock[0] += 100
        work.deliver("ann")
    assert len(hook.got) == 3
    assert len({key for key, _ in hook.got}) == 1
    assert ann.get("/v1/calls").json()[0]["state"] == "done"
    hook.broken = 100
    ann.post("/v1/objects/o/actions/open", json={})
    for _ in range(20):
        clock[0] += 10_000
        work.deliver("ann")
    assert ann.get("/v1/calls").json()[0] | {"origin": ""} == {
        "action": "ann/o/open",
        "origin": "",
        "state": "failed",
        "tries": 8,
        "said": "ConnectionError: it answered 500",
    }


def test_what_was_due_by_a_clock_that_was_ahead_is_due_now(
    site: Site, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = site.add("ann")
    ann.put("/v1/objects/o", json={"actions": {"open": {"webhook": hook.url}}})
    clock = [1e9]
    monkeypatch.setattr(module.time, "time", lambda: clock[0])
    work = Deliveries(site.service)
    ann.post("/v1/objects/o/actions/open", json={"by": "hand"})
    clock[0] -= 3600
    assert work.deliver("ann") == 1
    assert len(hook.got) == 1
    # What waits to be tried again still waits.
    hook.broken = 1
    ann.post("/v1/objects/o/actions/open", json={})
    assert work.deliver("ann") == 1
    assert work.deliver("ann") == 0


def test_actions_that_call_each_other_come_to_an_end(site: Site) -> None:
    ann = site.add("ann")
    loop = {"a": {"calls": ["b", "b"]}, "b": {"calls": ["a", "a"]}}
    assert ann.put("/v1/objects/o", json={"actions": loop}).status_code == 200
    ann.post("/v1/objects/o/actions/a", json={})
    work = Deliveries(site.service)
    while work.deliver("ann"):
        pass
    assert len(ann.get("/v1/calls").json()) < 10


def test_nobody_waits_for_the_slow_server_of_another(site: Site, hook: Hook) -> None:
    with socket.socket() as silent:
        # It takes connections, and never answers.
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        slow = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        eve, ann = site.add("eve"), site.add("ann")
        eve.put("/v1/objects/o", json={"actions": {"open": {"webhook": slow}}})
        ann.put("/v1/objects/o", json={"actions": {"open": {"webhook": hook.url}}})
        for _ in range(30):
            eve.post("/v1/objects/o/actions/open", json={})
        ann.post("/v1/objects/o/actions/open", json={"for": "ann"})
        work = Deliveries(site.service)
        work.start()
        try:
            wait_for(lambda: hook.got)
            states = {each["state"] for each in eve.get("/v1/calls").json()}
            assert states == {"due"}
        finally:
            # Connections that wait are reset, so that nobody has to wait for their end.
            silent.close()
            work.stop()


def test_calls_that_nobody_takes_do_not_pile_up_for_ever(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MOST_WAITING", 3)
    ann = site.add("ann")
    ann.put("/v1/objects/o", json={"actions": {"tell": {"mqtt": "doors"}}})
    for _ in range(5):
        ann.post("/v1/objects/o/actions/tell", json={})
    states = [each["state"] for each in ann.get("/v1/calls").json()]
    assert states == ["failed", "failed", "due", "due", "due"]


def test_tenants_with_slow_servers_take_turns_with_others(
    site: Site, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORKERS", 1)
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    monkeypatch.setattr(module, "TURN_SECONDS", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        slow = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        eve, ann = site.add("eve"), site.add("ann")
        eve.put("/v1/objects/o", json={"actions": {"open": {"webhook": slow}}})
        ann.put("/v1/objects/o", json={"actions": {"open": {"webhook": hook.url}}})
        for _ in range(100):
            eve.post("/v1/objects/o/actions/open", json={})
        ann.post("/v1/objects/o/actions/open", json={"for": "ann"})
        work = Deliveries(site.service)
        work.start()
        try:
            wait_for(lambda: hook.got)
            tried = [each for each in eve.get("/v1/calls?limit=1000").json() if each["tries"]]
            assert len(tried) < 20
        finally:
            silent.close()
            work.stop()


def test_a_server_that_answers_byte_by_byte_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 1.0)
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 ")
            while not over.wait(0.2):
                connection.sendall(b"O")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        eve = site.add("eve")
        eve.put("/v1/objects/o", json={"actions": {"open": {"webhook": url}}})
        eve.post("/v1/objects/o/actions/open", json={})
        try:
            assert Deliveries(site.service).deliver("eve") == 1
        finally:
            over.set()
    (call,) = eve.get("/v1/calls").json()
    assert (call["state"], call["tries"]) == ("due", 1)
