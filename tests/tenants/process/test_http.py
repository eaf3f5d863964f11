"""The interface over HTTP, without Spark: a thread settles what is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.engine.storing import run_batch
from holdfast.tenants.process.http.app import create_app
from holdfast.tenants.process.service import Service
from tests.tenants.process.rig import SHARED, derived, simple


class Site:
    """A server in this process, and tenants with a client each."""

    def __init__(self, folder: Path, place: str | None = None) -> None:
        self.service = Service.open(folder, place, webhook_hosts=frozenset({"127.0.0.1"}))
        self.app = create_app(self.service)
        self._planner = Planner(self.service.database)
        self.clients: dict[str, TestClient] = {}

    def add(self, name: str, **quotas: Any) -> TestClient:
        token = self.service.registry.add(name, Quotas(**quotas))
        client = TestClient(self.app, headers={"authorization": f"Bearer {token}"})
        self.clients[name] = client
        return client

    def login(self, name: str, other: Site) -> TestClient:
        """With the token that another server in the same folder gave."""
        token = other.clients[name].headers["authorization"]
        self.clients[name] = TestClient(self.app, headers={"authorization": token})
        return self.clients[name]

    def settle(self) -> None:
        while (plan := run_batch(self.service.database, self._planner)) is not None:
            self.service.settled(plan.settled)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def put(client: TestClient, name: str, **streams: Any) -> Any:
    answer = client.put(f"/v1/objects/{name}", json={"streams": streams})
    assert answer.status_code == 200, answer.text
    return answer.json()


def publish(client: TestClient, path: str, *updates: dict[str, Any]) -> Any:
    answer = client.post(f"/v1/streams/{path}/updates", json=list(updates))
    assert answer.status_code == 202, answer.text
    return answer.json()


def two(site: Site) -> tuple[TestClient, TestClient]:
    ann, ben = site.add("ann"), site.add("ben")
    put(ann, "roof", air={**simple(celsius="number"), **SHARED}, secret=simple(n="number"))
    put(ben, "twice", air=derived({"t": "ann/roof/air"}, {"celsius": "t.celsius * 2.0"}))
    return ann, ben


def test_from_documents_to_results(site: Site) -> None:
    ann, ben = two(site)
    receipts = publish(
        ann, "ann/roof/air", *({"timestamp": at, "channels": {"celsius": at}} for at in (1, 2, 3))
    )
    assert [each["offset"] for each in receipts] == [0, 1, 2]
    site.settle()
    assert ben.get("/v1/streams/ben/twice/air/last").json()["values"] == {"celsius": 6.0}
    history = ben.get("/v1/streams/ben/twice/air/updates", params={"since": 2, "limit": 1}).json()
    assert [each["values"]["celsius"] for each in history] == [4.0]
    # To a reader a simple stream is no different.
    assert ben.get("/v1/streams/ann/roof/air/last").json()["values"] == {"celsius": 3.0}
    status = ben.get("/v1/streams/ben/twice/air").json()
    assert (status["kind"], status["novelty"]) == ("composite", 1)
    audit = ben.get("/v1/audit").json()
    assert [(each["action"], each["outcome"]) for each in audit] == [("put", "done")]


def test_tenants_see_only_what_is_shared_with_them(site: Site) -> None:
    ann, ben = two(site)
    for what in ("", "/last", "/updates", "/errors", "/events"):
        hidden = ben.get(f"/v1/streams/ann/roof/secret{what}")
        absent = ben.get(f"/v1/streams/ann/roof/nothing{what}")
        assert hidden.status_code == absent.status_code == 404
        assert hidden.text.replace("secret", "X") == absent.text.replace("nothing", "X")
    body = {"channels": {"celsius": 1.0}}
    assert ben.post("/v1/streams/ann/roof/air/updates", json=body).status_code == 404
    assert ann.post("/v1/streams/ben/twice/air/updates", json=body).status_code == 404
    assert ben.get("/v1/objects/roof").status_code == 404
    assert ben.get("/v1/streams/ann/roof/air").json().keys() == {
        "stream",
        "kind",
        "channels",
        "description",
    }
    for token in ("", "Bearer", "Bearer x", "Basic x"):
        refused = TestClient(site.app).get("/v1/objects", headers={"authorization": token})
        assert refused.status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b'{"streams": {"A": {}}}', 400),
        (b'{"streams": {"a": {"channels": {"n": {"type": "number"}}, "x": 1}}}', 400),
        (b'{"streams": {"a": {"channels": {"if": {"type": "number"}}}}}', 400),
        (b'{"streams": {"a": {"channels": {"n": {"type": "number", "expression": "1.0"}}}}}', 400),
        (b'"' + b"x" * 300_000 + b'"', 413),
        (b"\xff\xfe", 400),
        (b'{"actions": {"a": {"webhook": "http://169.254.169.254/latest"}}}', 400),
        (b'{"actions": {"a": {"webhook": "http://[::1"}}}', 400),
        (b'{"actions": {"a": {}}}', 400),
    ],
)
def test_malformed_documents_are_refused_with_a_reason(
    site: Site, body: bytes, status: int
) -> None:
    ann = site.add("ann")
    answer = ann.put("/v1/objects/o", content=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]
    assert ann.get("/v1/objects").json() == []


@pytest.mark.parametrize(
    "update",
    [
        {},
        {"channels": {}},
        {"channels": {"n": "1"}},
        {"channels": {"n": 1, "m": 2}},
        {"channels": {"n": 1}, "timestamp": -1},
        {"channels": {"n": 1}, "timestamp": 2**53},
        {"channels": {"n": 1}, "timestamp": "9999-01-01T00:00:00Z"},
        {"channels": {"n": True}},
        {"channels": {"n": 1}, "key": "x" * 1000},
        {"channels": {"n": 1}, "surprise": 1},
        [],
        [{"channels": {"n": 1}}] * 1001,
        "x",
    ],
)
def test_malformed_updates_are_refused_and_nothing_is_logged(site: Site, update: Any) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    end = site.service.log.end
    answer = ann.post("/v1/streams/ann/o/a/updates", content=json.dumps(update))
    assert answer.status_code == 400, answer.text
    assert site.service.log.end == end


def test_queries_by_text_and_place_and_what_is_smuggled_into_them(site: Site) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(name="string", latitude="number", longitude="number"))
    places = {"Oslo": (59.91, 10.75), "50%_off": (0.0, 179.99), "O'Brien": (0.0, -179.99)}
    for at, (name, (latitude, longitude)) in enumerate(places.items()):
        channels = {"name": name, "latitude": latitude, "longitude": longitude}
        publish(ann, "ann/o/a", {"timestamp": at, "channels": channels})
    site.settle()

    def names(**asked: Any) -> list[str]:
        answer = ann.get("/v1/streams/ann/o/a/updates", params=asked)
        assert answer.status_code == 200, answer.text
        return [each["values"]["name"] for each in answer.json()]

    assert names(text="os*") == ["Oslo"]
    assert names(text="?slo") == ["Oslo"]
    assert names(text="*%_*") == ["50%_off"]
    assert names(text="o'brien") == ["O'Brien"]
    assert names(text="' OR 1=1 --") == []
    assert names(text="!%*") == []
    assert names(key="') OR ('1'='1") == []
    assert names(latitude=59.9, longitude=10.7, km=10) == ["Oslo"]
    # Across the date line.
    assert names(latitude=0, longitude=180, km=10) == ["50%_off", "O'Brien"]
    for bad in (
        {"limit": 0},
        {"limit": "1; DROP TABLE log"},
        {"nope": 1},
        {"km": 1},
        {"km": "nan", "latitude": 0, "longitude": 0},
    ):
        assert ann.get("/v1/streams/ann/o/a/updates", params=bad).status_code == 400


def test_a_flood_is_slowed_down_and_others_are_not(site: Site) -> None:
    ann, ben = site.add("ann", updates_per_second=1.0, burst=10), site.add("ben")
    for client in (ann, ben):
        put(client, "o", a=simple(n="number"))
    update = {"channels": {"n": 1}}
    answers = [ann.post("/v1/streams/ann/o/a/updates", json=update) for _ in range(15)]
    assert [each.status_code for each in answers].count(429) >= 4
    assert answers[-1].headers["retry-after"] == "1"
    assert ben.post("/v1/streams/ben/o/a/updates", json=update).status_code == 202


def test_documents_are_searched_by_tags(site: Site) -> None:
    ann, ben = site.add("ann"), site.add("ben")
    tagged = {**simple(c="number"), "description": {"kind": "air", "unit": "C"}}
    put(ann, "o", a={**tagged, **SHARED}, hidden=tagged)
    found = ben.get("/v1/streams", params={"tags": "kind:air,unit:C"}).json()
    assert [each["stream"] for each in found] == ["ann/o/a"]
    assert ben.get("/v1/streams").json() == []
    assert ben.get("/v1/streams", params={"tags": "kind"}).status_code == 400


def test_events_begin_where_the_subscriber_was(site: Site) -> None:
    from holdfast.tenants.process.http.events import Events
    from holdfast.tenants.process.http.requests import Admission
    from holdfast.tenants.process.registry import Tenant

    ann, _ = two(site)
    publish(ann, "ann/roof/air", *({"timestamp": n, "channels": {"celsius": n}} for n in range(5)))
    site.settle()

    class Connection:
        asked = 0

        async def is_disconnected(self) -> bool:
            self.asked += 1
            return self.asked > 1

    async def got(after: int) -> list[bytes]:
        events = Events(site.service, Admission(site.service.rates))
        found = []
        async for each in events.of(
            Connection(), Tenant("ben", Quotas()), "ann/roof/air", after, lambda: None
        ):
            found.append(each)
            if len(found) > 5 - after - 1:
                break
        return found

    import anyio

    blocks = anyio.run(got, 2)
    assert [block.split(b"\n")[0] for block in blocks] == [b": welcome", b"id: 3", b"id: 4"]


def test_the_page_may_load_nothing_from_elsewhere(site: Site) -> None:
    page = TestClient(site.app).get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "://" not in page.text.replace("http://www.w3.org", "")
    assert (
        TestClient(site.app).get("/chart.js").headers["content-type"].startswith("text/javascript")
    )


def test_a_token_is_replaced_while_the_server_runs(site: Site, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from holdfast.tenants.process.command import tenant

    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))

    def rotate(*more: str) -> TestClient:
        ended = CliRunner().invoke(tenant, ["rotate", "ann", "--state", str(tmp_path), *more])
        assert ended.exit_code == 0, ended.output
        token = ended.stdout.strip()
        return TestClient(site.app, headers={"authorization": f"Bearer {token}"})

    def status(client: TestClient) -> int:
        return client.get("/v1/objects").status_code

    second = rotate("--grace", "1h")
    assert (status(ann), status(second)) == (200, 200)
    # The one before the last is out too: it may be why there is a new one.
    third = rotate()
    assert (status(ann), status(second), status(third)) == (403, 403, 200)
    assert third.get("/v1/audit").json()[0]["action"] == "rotate"
    assert CliRunner().invoke(tenant, ["rotate", "eve", "--state", str(tmp_path)]).exit_code != 0


def test_whoever_follows_with_a_token_that_was_replaced_is_sent_away(site: Site) -> None:
    import anyio

    from holdfast.tenants.process.http.events import Events
    from holdfast.tenants.process.http.requests import Admission

    ann, _ = two(site)
    publish(ann, "ann/roof/air", {"timestamp": 1, "channels": {"celsius": 1}})
    site.settle()
    authorization = ann.headers["authorization"]
    tenant = site.service.registry.who(authorization)

    class Connection:
        async def is_disconnected(self) -> bool:
            return False

    async def got() -> list[bytes]:
        found = []
        events = Events(site.service, Admission(site.service.rates)).of(
            Connection(),
            tenant,
            "ann/roof/air",
            -1,
            lambda: site.service.registry.who(authorization),
        )
        async for each in events:
            found.append(each)
            if each.startswith(b"id: 0"):
                site.service.registry.rotate("ann")
                site.service.settled(site.service.position)
        return found

    last = anyio.run(got)[-1]
    assert last.startswith(b"event: end\ndata: ")
    assert b'"status":403' in last
    assert b"token" in last
