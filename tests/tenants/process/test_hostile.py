"""What a tenant does to hold up or to confuse all others comes to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import QuotaError
from holdfast.tenants.machine.documents import DocumentError, ServiceObject
from holdfast.tenants.machine.settling import Limits
from holdfast.tenants.process import catalog, service
from holdfast.tenants.process.backlog import STEPS, Quotas, Rates
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.engine.storing import run_batch
from holdfast.tenants.process.log import Publication
from holdfast.tenants.process.registry import Tenant
from tests.tenants.process.rig import SHARED, Platform, derived, simple
from tests.tenants.process.test_http import Site, publish, put


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path / "store.db")
    yield made
    made.database.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


LIST = {"channels": {"l": {"type": "number[]"}}}
COSTLY = "a.l.filter(x, x * x > 3.0).map(x, x + 1.0).size() > 0 ? 1.0 : 0.0"


def failures(platform: Platform, path: str) -> list[str]:
    rows = platform.database.rows("SELECT message FROM failures WHERE path = ?", (path,))
    return [message for (message,) in rows]


def test_what_one_update_sets_off_has_a_limit(platform: Platform) -> None:
    """A thousand streams that each take long: some are calculated, the rest are told."""
    many = 400
    platform.quotas = Quotas(fan_out=1000)
    platform.put("ann", "o", streams={"a": {**LIST, **SHARED}})
    costly = {f"c{n}": derived({"a": "ann/o/a"}, {"n": COSTLY}) for n in range(many)}
    platform.put("ann", "p", streams=costly)
    platform.put("eve", "p", streams=costly)
    platform.put("ben", "p", streams={"b": derived({"a": "ann/o/a"}, {"n": "a.l[0]"})})
    platform.publish("ann/o/a", 1, l=[float(n) for n in range(256)])
    platform.settle()
    made = {
        tenant: sum(bool(platform.updates(f"{tenant}/p/c{n}")) for n in range(many))
        for tenant in ("ann", "eve")
    }
    assert 0 < made["eve"] < made["ann"] < many
    late = next(n for n in range(many) if not platform.updates(f"eve/p/c{n}"))
    (message,) = failures(platform, f"eve/p/c{late}")
    assert f"more than {Limits().work_of_others:,} steps" in message
    # Nobody else suffers for it.
    assert platform.values("ben/p/b", "n") == [0.0]


def test_results_do_not_grow_without_end(platform: Platform) -> None:
    words = {"channels": {"w": {"type": "string[]"}}}
    copies = {f"w{n}": {"type": "string[]", "expression": "a.w"} for n in range(64)}
    platform.put("ann", "o", streams={"a": words})
    platform.put(
        "ann", "p", streams={"b": {"channels": copies, "inputs": {"a": {"stream": "o/a"}}}}
    )
    platform.publish("ann/o/a", 1, w=["x" * 1000] * 200)
    platform.settle()
    assert platform.updates("ann/p/b") == []
    (message,) = failures(platform, "ann/p/b")
    assert "bytes, of 262,144 at most" in message


def test_a_stream_that_takes_long_may_not_follow_others(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": {**LIST, **SHARED}})
    expression = " + ".join([f"({COSTLY})"] * 20)
    with pytest.raises(DocumentError, match=r"streams\.b: may take .* of somebody else"):
        platform.put("eve", "p", streams={"b": derived({"a": "ann/o/a"}, {"n": expression})})
    platform.put("ann", "p", streams={"b": derived({"a": "o/a"}, {"n": expression})})


def test_keys_without_end_are_refused_and_told(platform: Platform) -> None:
    platform.put(
        "ann", "o", streams={"a": simple(n="number"), "b": derived({"a": "a"}, {"n": "a.n"})}
    )
    platform.log.append([Publication("ann/o/a", 1, {"n": 1.0}, f"k{n}") for n in range(1010)])
    platform.settle()
    assert len(platform.updates("ann/o/b")) == 1000
    assert len(failures(platform, "ann/o/a")) == 10
    assert "may have no more" in failures(platform, "ann/o/a")[0]
    assert platform.database.rows("SELECT count(*) FROM updates WHERE late = 1")[0][0] == 10


def test_an_update_that_sets_off_much_counts_as_many(site: Site) -> None:
    ann = site.add("ann", updates_per_second=0.001, burst=100)
    put(ann, "o", a=simple(n="number"))
    site.service.rates.learn({"ann/o/a": 30 * STEPS})
    answers = [
        ann.post("/v1/streams/ann/o/a/updates", json={"channels": {"n": n}}).status_code
        for n in range(5)
    ]
    assert answers == [202, 202, 202, 429, 429]


def test_an_update_is_checked_against_the_document_it_comes_after(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream gets other channels between the check and the log."""
    ann = site.add("ann")
    put(ann, "o", a=simple(n="number"))
    stream = site.service.reading.admitted
    changes: list[dict[str, Any]] = [simple(n="string"), simple(m="number")]

    def slowly(*asked: Any) -> Any:
        found = stream(*asked)
        if changes:
            put(ann, "o", a=changes.pop())
        return found

    monkeypatch.setattr(site.service.reading, "admitted", slowly)
    answer = ann.post("/v1/streams/ann/o/a/updates", json={"channels": {"n": 1}})
    assert (answer.status_code, changes) == (400, [])
    (receipt,) = publish(ann, "ann/o/a", {"channels": {"n": "one"}})
    assert receipt["offset"] == 0
    site.settle()
    assert ann.get("/v1/streams/ann/o/a/updates").json()[0]["values"] == {"n": "one"}


def test_streams_that_one_may_not_see_hide_no_others_from_a_search(site: Site) -> None:
    eve, zoe, ben = (site.add(name) for name in ("eve", "zoe", "ben"))
    tagged = {**simple(n="number"), "description": {"kind": "air"}}
    for number in range(2):
        put(eve, f"o{number}", **{f"s{n}": tagged for n in range(500)})
    put(zoe, "o", a={**tagged, **SHARED})
    found = ben.get("/v1/streams", params={"tags": "kind:air", "limit": 1}).json()
    assert [each["stream"] for each in found] == ["zoe/o/a"]


TAGGED = {**simple(n="number"), "description": {"kind": "air"}}


def asking(many: int) -> dict[str, Any]:
    """Streams that each take all that are tagged."""
    query = {"query": {"match": {"kind": "air"}, "channels": {"n": "number"}}}
    return {
        f"q{n}": {
            "channels": {"n": {"type": "number", "expression": "window.n"}},
            "inputs": {"p": query},
            "aggregate": {
                "input": "p",
                "over": "partitions",
                "fields": {"n": {"function": "sum", "of": "p.n"}},
            },
        }
        for n in range(many)
    }


def links(platform: Platform) -> int:
    rows = platform.database.rows("SELECT count(*) FROM edges WHERE until > 1000000")
    return int(rows[0][0])


def test_streams_and_queries_are_not_multiplied_without_end(platform: Platform) -> None:
    """300 queries over 300 streams took others 11 s of waiting, and each update a batch of 4 s."""
    platform.quotas = Quotas(streams=50, links=100)
    platform.put("eve", "o", streams={f"s{n}": TAGGED for n in range(20)})
    with pytest.raises(QuotaError, match="more than 100 inputs together"):
        platform.put("eve", "p", streams=asking(6))
    assert links(platform) == 0
    platform.put("eve", "p", streams=asking(5))
    assert links(platform) == 100
    with pytest.raises(QuotaError, match="more than 100 inputs together"):
        platform.put("eve", "r", streams={"d": derived({"a": "eve/o/s0"}, {"n": "a.n"})})
    platform.put("eve", "p", streams=asking(4))
    platform.put("eve", "r", streams={"d": derived({"a": "eve/o/s0"}, {"n": "a.n"})})
    # Others have their own.
    platform.put("ben", "o", streams={"s": simple(n="number")})
    platform.put("ben", "p", streams={"d": derived({"a": "ben/o/s"}, {"n": "a.n"})})


def test_streams_that_come_after_the_queries_are_bounded_as_well(platform: Platform) -> None:
    platform.quotas = Quotas(streams=50, links=100)
    platform.put("eve", "p", streams=asking(10))
    platform.put("eve", "o", streams={f"s{n}": TAGGED for n in range(20)})
    assert links(platform) == 100
    platform.settle()
    told = [len(failures(platform, f"eve/p/q{n}")) for n in range(10)]
    assert told == [1] * 10
    platform.put("eve", "o", streams={f"s{n}": TAGGED for n in range(5)})
    assert links(platform) == 50


def test_queries_that_match_nothing_look_at_so_many_streams_only(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MOST_LOOKED", 100)
    other = {**simple(s="string"), "description": {"kind": "air"}}
    platform.put("eve", "o", streams={f"s{n}": other for n in range(20)})
    platform.put("eve", "p", streams=asking(5))
    assert links(platform) == 0
    with pytest.raises(QuotaError, match="look at more than 100 streams"):
        platform.put("eve", "q", streams=asking(6))


def test_an_update_with_many_links_takes_a_batch_of_its_own(platform: Platform) -> None:
    platform.put("eve", "o", streams={f"s{n}": TAGGED for n in range(60)})
    platform.put("eve", "p", streams=asking(60))
    platform.put("ben", "o", streams={"s": simple(n="number")})
    platform.settle()
    for at in range(1, 6):
        platform.publish("eve/o/s0", at, n=float(at))
    platform.publish("ben/o/s", 1, n=1.0)
    planner = Planner(platform.database)
    plans = iter(lambda: run_batch(platform.database, planner), None)
    batches = [plan.positions for plan in plans]
    assert sum(map(len, batches)) == 6
    assert max(map(len, batches)) <= 2
    # Ben's came last.
    assert max(batches[0] + batches[1]) == platform.log.end


def test_a_change_that_takes_long_counts_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FREE_SECONDS", 0.0)
    monkeypatch.setattr(service, "CHANGE_SECONDS", 1e-5)
    site = Site(tmp_path)
    eve = site.add("eve", changes_per_second=0.001)
    put(eve, "o", **{f"s{n}": TAGGED for n in range(200)})
    answer = eve.put("/v1/objects/o", json={"streams": {}})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) == 3_600
    site.service.database.close()


def test_changes_that_hold_up_the_log_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a stream with 1,000 behind it: whoever publishes waits for each of them."""
    made = service.Service.open(tmp_path / "state")
    made.rates = Rates(lambda: 0.0)
    document = msgspec.convert({"streams": {"s": simple(n="number")}}, ServiceObject)

    def busy(*_: object) -> int:
        began = time.thread_time()
        while time.thread_time() < began + 0.06:
            pass
        return 1

    monkeypatch.setattr(made.catalog, "put", busy)
    taken = 0
    with suppress(QuotaError):
        for _ in range(40):
            made.put(Tenant("eve", Quotas()), "o", document)
            taken += 1
    assert 10 < taken < 40
    made.database.close()


def test_members_that_are_gone_leave_their_places_to_others(platform: Platform) -> None:
    platform.quotas = Quotas(members=2)
    platform.put("eve", "p", streams=asking(1))
    for name in "abc":
        platform.put("eve", "o", streams={f"{name}{n}": TAGGED for n in range(2)})
    platform.settle()
    assert failures(platform, "eve/p/q0") == []
    platform.publish("eve/o/c1", 1, n=4.0)
    platform.settle()
    assert platform.values("eve/p/q0", "n") == [4.0]
