"""The web server of the console: what it answers, and to whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from holdfast.console.collector import Collector
from holdfast.console.pollers import condition_of
from holdfast.console.server import make_app
from holdfast.console.views import Choice, LiveView
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import Topology
from holdfast.transport.security import Security
from tests.console.fake_fleet import (
    NOW,
    SECOND,
    FakeStreams,
    fleet_topology,
    status_of,
    windows,
)
from tests.transport.parties import wait_for

TOKEN = "a-token-for-tests"
RIGHT = {"authorization": f"Bearer {TOKEN}"}


class Orders:
    """A breaker that writes down what it is told."""

    def __init__(self) -> None:
        self.given: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *names: self.given.append((name, *names))


class Made:
    """A collector that asks nobody: what it knows is put into it."""

    def __init__(self, topology: Topology) -> None:
        self.now = float(NOW)
        self.streams = FakeStreams()
        self.collector = Collector(topology, open_=self.streams.open, clock=lambda: self.now)

    def say(self, party: str, **changes: Any) -> None:
        said = status_of(self.collector.topology, party) | changes
        self.collector.take(party, condition_of(json.dumps(said).encode()))

    def tell(self, told: Told) -> None:
        self.collector.tails.of("sums").add(self.now, told)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(fleet_topology(tmp_path))
    for party, found in made.collector.topology.parties().items():
        if found.address is not None:
            made.say(party)
    made.collector.look()
    yield made
    made.collector.close()


def client(made: Made, breaker: Any = None, **settings: Any) -> TestClient:
    app = make_app(
        made.collector, Security(TOKEN), hosts=["testserver"], breaker=breaker, **settings
    )
    return TestClient(app)


def test_the_page_and_all_it_needs_come_from_here(made: Made) -> None:
    web = client(made)
    page = web.get("/")
    assert page.status_code == 200
    assert "<script src=" in page.text
    names = [path.name for path in Path(make_app.__code__.co_filename).parent.glob("page/*")]
    assert len(names) > 10
    for name in names:
        answer = web.get(f"/page/{name}")
        assert answer.status_code == 200, name
        if name.endswith(".js"):
            assert "javascript" in answer.headers["content-type"]
    assert web.get("/page/../server.py").status_code == 404
    assert web.get("/nothing").status_code == 404


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/api/outline", "/nothing"])
def test_every_answer_forbids_what_is_not_ours(made: Made, path: str) -> None:
    headers = client(made).get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/api/outline", "/api/view"])
def test_a_name_that_is_not_ours_is_refused(made: Made, path: str) -> None:
    """As DNS rebinding would make a browser call us."""
    assert client(made).get(path, headers={"host": "evil.example"}).status_code == 400


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    page = (Path(make_app.__code__.co_filename).parent / "page" / "index.html").read_text()
    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in page.replace(" one", "").replace(" only", "")
    assert "http" not in page


def test_who_there_is(made: Made) -> None:
    found = client(made).get("/api/outline").json()
    assert found["layers"] == [["readings"], ["clean"], ["sums"], ["archive"]]
    assert found["boxes"]["sums"]["gate"] == "switch, max_delay 5s"
    assert found["boxes"]["sums"]["max_delay_ms"] == 5000
    assert found["parties"]["sums/1"]["reads"] == {"clean": ["clean/1", "clean/2"]}
    assert found["parties"]["archive"]["reads"] == {"sums": ["sums/1", "sums/2"]}
    assert found["leaves"] == ["sums"]
    assert found["demo"] is False


def test_how_things_were(made: Made) -> None:
    made.tell(windows([NOW - 1], {"north": 7}))
    made.now += 10
    made.say("sums/1", state="UP_FAILURE")
    made.tell(windows([NOW + 9], {"north": 5}, Kind.TENTATIVE))
    web = client(made)
    asked = {"stream": "sums", "key": "north", "column": "total"}
    then = web.get("/api/view", params={**asked, "at": (NOW + 5) * 1000}).json()
    assert then["parties"]["sums/1"]["state"] == "STABLE"
    assert [piece[2] for piece in then["stream"]["pieces"]] == ["stable"]
    now = web.get("/api/view", params={**asked, "at": (NOW + 60) * 1000}).json()
    assert now["at"] == (NOW + 10) * 1000
    assert now["parties"]["sums/1"]["state"] == "UP_FAILURE"
    assert [piece[-1] for piece in now["stream"]["pieces"]] == [
        [[(NOW - 1) * 1000, 7.0]],
        [[(NOW + 9) * 1000, 5.0]],
    ]


def test_the_hour_at_a_glance(made: Made) -> None:
    made.collector.history.tick(made.now, made.collector.conditions())
    found = client(made).get("/api/range", params={"cells": 60}).json()
    assert len(found["cells"]) == 60
    assert found["cells"][-1] == 1
    assert found["end"] - found["start"] == 3_600_000
    assert found["known"] == NOW * 1000


@pytest.mark.parametrize(
    "path",
    [
        "/api/view?at=soon",
        "/api/view?at=nan",
        "/api/view?at=1e999",
        "/api/view?span=0",
        "/api/view?span=1e9",
        "/api/view?stream=nothing",
        "/api/view?stream=" + "x" * 5000,
        "/api/range?cells=0",
        "/api/range?cells=100000000",
        "/api/events?stream=nothing",
        "/api/events?span=-1",
    ],
)
def test_what_makes_no_sense_is_refused(made: Made, path: str) -> None:
    answer = client(made).get(path)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_live_only_what_is_new_is_sent(made: Made) -> None:
    made.tell(windows([NOW - 1], {"north": 7, "south": 1}))
    view = LiveView(made.collector, Choice("sums"))

    def message() -> dict[str, Any]:
        said = view.next()
        assert said is not None
        return dict(json.loads(said))

    first = message()
    assert first["full"]
    assert set(first["parties"]) == set(made.collector.topology.parties())
    assert first["stream"]["key"] == "north"
    assert first["stream"]["column"] == "total"
    assert view.next() is None
    made.say("sums/1", state="UP_FAILURE")
    second = message()
    assert not second["full"]
    assert set(second["parties"]) == {"sums/1"}
    assert second["stream"]["pieces"] == []
    made.tell(windows([NOW], {"a-new-key": 3, "north": 4}))
    third = message()
    assert third["parties"] == {}
    assert third["stream"]["key"] == "north"
    assert [piece[-1] for piece in third["stream"]["pieces"]] == [[[NOW * 1000, 4.0]]]


def test_events_are_sent_until_we_close(made: Made) -> None:
    made.tell(Told(Kind.INSERT, NOW * SECOND))
    looks: list[int] = []

    def is_closing() -> bool:
        looks.append(1)
        return len(looks) > 2

    answer = client(made, is_closing=is_closing).get("/api/events", params={"stream": "sums"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    [event] = [each for each in answer.text.split("\n\n") if each]
    assert event.startswith("data: ")
    assert json.loads(event[6:])["full"]


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "é"}])
def test_nobody_breaks_anything_without_the_token(made: Made, headers: dict[str, str]) -> None:
    orders = Orders()
    encoded = {name: value.encode() for name, value in headers.items()}
    answer = client(made, orders).post(
        "/api/act", json={"do": "kill", "party": "sums/1"}, headers=encoded
    )
    assert answer.status_code == 401
    assert orders.given == []


def test_nothing_is_broken_that_was_not_started_to_be(made: Made) -> None:
    web = client(made)
    order = {"do": "kill", "party": "sums/1"}
    assert web.post("/api/act", json=order, headers=RIGHT).status_code == 403
    assert not web.get("/api/outline", headers=RIGHT).json()["may_act"]


def test_who_has_the_token_may_break_things(made: Made) -> None:
    orders = Orders()
    web = client(made, orders)
    assert web.get("/api/outline", headers=RIGHT).json()["may_act"]
    assert not web.get("/api/outline").json()["may_act"]
    for order in (
        {"do": "freeze", "party": "sums/1"},
        {"do": "thaw", "party": "sums/1"},
        {"do": "kill", "party": "readings"},
        {"do": "cut", "party": "sums/1", "to": "clean/1"},
        {"do": "heal", "party": "sums/1", "to": "clean/1"},
    ):
        assert web.post("/api/act", json=order, headers=RIGHT).status_code == 200
    assert orders.given == [
        ("freeze", "sums/1"),
        ("thaw", "sums/1"),
        ("kill", "readings"),
        ("cut", "sums/1", "clean/1"),
        ("heal", "sums/1", "clean/1"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"kill",
        b'{"do": "format", "party": "sums/1"}',
        b'{"do": "kill"}',
        b'{"do": "kill", "party": 7}',
        b'{"do": "kill", "party": "sums/1", "force": true}',
        b'{"do": "kill", "party": "' + b"x" * 5000 + b'"}',
    ],
)
def test_an_order_that_is_none_is_refused(made: Made, body: bytes) -> None:
    orders = Orders()
    answer = client(made, orders).post("/api/act", content=body, headers=RIGHT)
    assert answer.status_code in (400, 413)
    assert orders.given == []


def test_beyond_loopback_reading_needs_the_token_too(made: Made) -> None:
    web = client(made, is_open=False)
    assert web.get("/").status_code == 200
    for path in ("/api/outline", "/api/view", "/api/range", "/api/events"):
        assert web.get(path).status_code == 401
    assert web.get("/api/outline", headers=RIGHT).status_code == 200


def test_no_more_pages_than_can_be_served(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.console.server.MOST_PAGES", 0)
    assert client(made).get("/api/events").status_code == 503


def test_a_stream_that_is_chosen_is_read_from_then_on(made: Made) -> None:
    assert client(made).get("/api/view", params={"stream": "clean"}).status_code == 200
    wait_for(lambda: made.streams.queues["clean"])
