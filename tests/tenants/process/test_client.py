"""The client against a real server: what it publishes comes back as events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from harness.ports import free_port
from holdfast.tenants.process.client import Client, RefusedByServerError
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import SHARED, derived, simple
from tests.tenants.process.test_http import Site


@contextmanager
def served(site: Site) -> Iterator[str]:
    port = free_port()
    config = uvicorn.Config(site.app, port=port, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
        site.service.database.close()


def test_from_publishing_to_following(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tokens = {name: site.service.registry.add(name) for name in ("ann", "ben")}
    with served(site) as address:
        ann, ben = (Client(address, tokens[name]) for name in ("ann", "ben"))
        assert ann.put("o", {"streams": {"a": {**simple(n="number"), **SHARED}}}) == 1
        ben.put("p", {"streams": {"b": derived({"a": "ann/o/a"}, {"n": "1.0 / a.n"})}})
        ann.publish("ann/o/a", [{"timestamp": n, "channels": {"n": n}} for n in (1, 2)])
        site.settle()
        events = ben.follow("ben/p/b")
        assert next(events)["values"] == {"n": 1.0}
        assert next(events)["values"] == {"n": 0.5}
        # Somebody waits already when the next one comes.
        later = threading.Timer(0.2, lambda: (ann.publish("ann/o/a", {"n": 4}), site.settle()))
        later.start()
        assert next(events)["values"] == {"n": 0.25}
        later.join()
        assert ben.last("ben/p/b")["offset"] == 2
        assert [each["offset"] for each in ben.updates("ben/p/b", after=0)] == [1, 2]
        ben.delete("p")
        site.settle()
        assert list(events) == []
        with pytest.raises(RefusedByServerError, match="ben/p/b") as caught:
            ben.last("ben/p/b")
        assert caught.value.status == 404


def test_a_failing_expression_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    tokens = {name: site.service.registry.add(name) for name in ("ann", "ben")}
    with served(site) as address:
        ann, ben = (Client(address, tokens[name]) for name in ("ann", "ben"))
        root = {**derived({"a": "a"}, {"n": "sqrt(a.n)"}), **SHARED}
        ann.put("o", {"streams": {"a": simple(n="number"), "root": root}})
        ann.publish("ann/o/a", {"n": -1.0})
        site.settle()
        (failure,) = ann.errors("ann/o/root")
        assert "math domain error" in failure["message"]
        with pytest.raises(RefusedByServerError):
            ben.errors("ann/o/root")
