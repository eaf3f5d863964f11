"""Quotas of every verb: what is too much is refused, counted, and nobody else's concern."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import QuotaError
from holdfast.tenants.process.backlog import Kind, Quotas, Rates
from holdfast.tenants.process.http import requests as admission_module
from holdfast.tenants.process.http.requests import LARGEST_DOCUMENT, Admission
from holdfast.tenants.process.reading import LARGEST_ANSWER
from holdfast.tenants.process.registry import Tenant
from tests.tenants.process.rig import simple
from tests.tenants.process.test_http import Site, publish, put


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def document(n: int, streams: int = 1) -> dict[str, Any]:
    return {"streams": {f"s{each}": simple(**{f"x{n}": "number"}) for each in range(streams)}}


def test_documents_are_limited_for_one_tenant_and_not_for_another(site: Site) -> None:
    eve, ben = site.add("eve", changes_per_second=0.01, changes_burst=22), site.add("ben")
    answers = [eve.put("/v1/objects/o", json=document(n)) for n in range(100)]
    # Each counts 1.1.
    assert Counter(answer.status_code for answer in answers) == {200: 20, 429: 80}
    assert "changes: 0.01 a second" in answers[-1].json()["error"]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 100
    assert eve.delete("/v1/objects/o").status_code == 429
    # Refused before it is read: there is no such action, and nobody looks.
    assert eve.post("/v1/objects/o/actions/a", json={}).status_code == 429
    assert site.service.catalog.get("eve", "o").version == 20
    assert ben.put("/v1/objects/o", json=document(1)).status_code == 200
    refused = ben.get("/health").json()["refused"]
    assert refused == {"updates": 0, "changes": 82, "reads": 0, "waiting": 0}


def test_large_documents_count_more(site: Site) -> None:
    eve = site.add("eve", changes_per_second=0.001, changes_burst=20)
    assert eve.put("/v1/objects/o", json=document(1, 170)).status_code == 200
    # 18 of 20 are gone.
    answers = [eve.put(f"/v1/objects/{name}", json=document(1)).status_code for name in "pq"]
    assert answers == [200, 429]
    assert eve.delete("/v1/objects/o").status_code == 429


def test_documents_that_are_refused_count_too(site: Site) -> None:
    """Each is compiled, and noted for the audit."""
    eve = site.add("eve", changes_per_second=0.001, changes_burst=11)
    bad = {"streams": {"a": {"channels": {"n": {"type": "number", "expression": "1.0"}}}}}
    answers = [eve.put("/v1/objects/o", json=bad).status_code for _ in range(20)]
    assert answers == [400] * 10 + [429] * 10
    assert len(eve.get("/v1/audit").json()) == 10


def test_reads_are_limited(site: Site) -> None:
    eve, ben = site.add("eve", reads_per_second=0.001, reads_burst=8), site.add("ben")
    put(eve, "o", a=simple(n="number"))
    asked = ["/v1/streams", "/v1/objects", "/v1/streams/eve/o/a", "/v1/streams/eve/o/a/updates"]
    answers = [eve.get(each) for _ in range(3) for each in asked]
    assert [answer.status_code for answer in answers][-4:] == [429] * 4
    assert answers[0].status_code == 200
    assert int(answers[-1].headers["retry-after"]) == 1000
    assert ben.get("/v1/streams").status_code == 200


def test_a_read_that_takes_long_counts_as_many() -> None:
    rates = Rates(lambda: 0.0)
    tenant = Tenant("eve", Quotas(reads_burst=100))

    def work() -> int:
        return sum(range(3_000_000))

    anyio.run(Admission(rates).read, tenant, work)
    with pytest.raises(QuotaError, match="reads"):
        rates.take("eve", tenant.quotas, "reads", 95)


def test_a_publication_has_two_bounds_and_tells_which(site: Site) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(s="string"))
    short, long = {"channels": {"s": "x"}}, {"channels": {"s": "x" * 1000}}
    path = "/v1/streams/ann/o/a/updates"
    assert ann.post(path, json=[short] * 1000).status_code == 202
    many = ann.post(path, json=[short] * 1001)
    assert (many.status_code, many.json()["error"]) == (400, "updates: give 1 to 1000 at once")
    large = ann.post(path, json=[long] * 1000)
    assert large.status_code == 413
    assert f"{LARGEST_DOCUMENT} bytes" in large.json()["error"]


_kinds = st.sampled_from(["updates", "changes", "reads"])


@given(st.lists(st.tuples(_kinds, st.floats(0, 3), st.floats(0.1, 30)), max_size=60))
def test_never_more_than_the_burst_and_the_rate(steps: list[tuple[Kind, float, float]]) -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    quotas = Quotas(
        updates_per_second=2,
        burst=10,
        changes_per_second=2,
        changes_burst=10,
        reads_per_second=2,
        reads_burst=10,
    )
    taken: Counter[str] = Counter()
    for kind, pause, count in steps:
        now[0] += pause
        try:
            rates.take("eve", quotas, kind, count)
        except QuotaError as error:
            now[0] += error.retry_after or 0
            # What it was told to wait for is there.
            rates.take("eve", quotas, kind, count)
        taken[kind] += min(count, 10)  # type: ignore[assignment]
        assert taken[kind] <= 10 + 2 * now[0] + 1e-6
        rates.take("ben", Quotas(), kind)


def test_requests_of_one_tenant_leave_threads_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_module, "MOST_WAITING", 50)
    admission = Admission(Rates())
    eve, ben = Tenant("eve", Quotas()), Tenant("ben", Quotas())
    release = threading.Event()
    refused = []

    async def slow() -> None:
        try:
            await admission.run(eve, release.wait, 30)
        except QuotaError as error:
            refused.append(str(error))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(slow)
            with anyio.fail_after(10):
                while len(refused) < 6:
                    await anyio.lowlevel.checkpoint()
                # Eve's requests hold or wait for her own threads; Ben's is served.
                assert await admission.run(ben, lambda: "served") == "served"
            release.set()

    anyio.run(main)
    assert refused == ["requests: 50 of yours wait already; send fewer at the same time"] * 6


def test_a_connection_that_ends_before_its_body_is_no_error_of_the_server(site: Site) -> None:
    eve = site.add("eve")
    sent: list[Any] = []
    told = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/v1/objects/o",
        "query_string": b"",
        "headers": [(b"authorization", eve.headers["authorization"].encode())],
    }

    async def receive() -> Any:
        return told.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    anyio.run(site.app, scope, receive, send)
    assert sent[0]["status"] == 400
    assert b"the connection ended" in sent[1]["body"]


def test_an_answer_is_bounded_in_bytes_and_what_follows_can_be_asked_for(site: Site) -> None:
    ann = site.add("ann")
    put(ann, "o", a=simple(s="string[]"), b=simple(s="string[]"))
    long = {"channels": {"s": ["x" * 1_000] * 100}}
    for number in range(30):
        publish(ann, "ann/o/a", long)
        if number % 2:
            publish(ann, "ann/o/b", {"channels": {"s": []}}, long)
        site.settle()
    found: list[int] = []
    while True:
        after = found[-1] if found else -1
        answer = ann.get(f"/v1/streams/ann/o/a/updates?limit=1000&after={after}")
        assert len(answer.content) < LARGEST_ANSWER + 10_000
        if not answer.json():
            break
        found += [each["offset"] for each in answer.json()]
    assert found == list(range(30))
    both = ann.get("/v1/streams/ann/o/b/updates?limit=1000").json()
    assert [each["offset"] for each in both][:3] == [0, 1, 2]


def test_bodies_and_answers_of_one_tenant_that_are_held_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission_module, "MOST_OPEN", 3)
    admission = Admission(Rates())
    eve, ben = Tenant("eve", Quotas()), Tenant("ben", Quotas())
    leave = [admission.enter(eve) for _ in range(3)]
    with pytest.raises(QuotaError, match="3 of yours are open"):
        admission.enter(eve)
    admission.enter(ben)()
    leave[0]()
    admission.enter(eve)()


def test_a_slow_body_holds_a_place_until_its_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_module, "MOST_OPEN", 2)
    eve, ben = site.add("eve"), site.add("ben")

    async def main() -> None:
        end = anyio.Event()
        sent: list[Any] = []

        async def receive() -> Any:
            await end.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        async with anyio.create_task_group() as group:
            scope = {
                "type": "http",
                "method": "PUT",
                "path": "/v1/objects/o",
                "query_string": b"",
                "headers": [(b"authorization", eve.headers["authorization"].encode())],
            }
            for _ in range(5):
                group.start_soon(site.app, dict(scope), receive, send)
            with anyio.fail_after(30):
                while sum(each.get("status") == 429 for each in sent) < 3:
                    await anyio.sleep(0.01)
            assert (await anyio.to_thread.run_sync(ben.get, "/v1/objects")).status_code == 200
            end.set()

    anyio.run(main)
    assert eve.get("/v1/objects").status_code == 200


def test_large_updates_and_documents_count_as_several(site: Site) -> None:
    """1,000 updates of 240 KB a second filled the disk of all tenants."""
    eve = site.add("eve", updates_per_second=0.001, burst=100, changes_per_second=0.001)
    put(eve, "o", a=simple(s="string[]"))
    large = {"channels": {"s": ["x" * 1_000] * 200}}
    path = "/v1/streams/eve/o/a/updates"
    # 49 more for each.
    assert [eve.post(path, json=large).status_code for _ in range(3)] == [202, 202, 429]
    texts = {f"t{n}": "x" * 1_000 for n in range(16)}
    many = {f"s{n}": {**simple(n="number"), "description": texts} for n in range(10)}
    answers = [
        eve.put("/v1/objects/p", json={"streams": many, "description": {"v": str(n)}}).status_code
        for n in range(30)
    ]
    # Each counts 11.
    assert answers.count(200) == 18
