"""A tenant may have only so much in the log that is not calculated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tenants.process.rig import simple
from tests.tenants.process.test_http import Site, publish, put


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def update(n: int) -> dict[str, object]:
    return {"timestamp": n, "channels": {"n": float(n)}}


def test_more_than_may_wait_is_refused_and_counted(site: Site) -> None:
    ann, ben = site.add("ann", backlog=10), site.add("ben")
    for tenant in (ann, ben):
        put(tenant, "o", a=simple(n="number"))
    site.settle()
    publish(ann, "ann/o/a", *(update(n) for n in range(1, 9)))
    for refused in (
        ann.post("/v1/streams/ann/o/a/updates", json=[update(n) for n in range(9, 12)]),
        ann.post("/v1/streams/ann/o/a/updates", json=[update(n) for n in range(9, 400)]),
    ):
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        assert "backlog: 8 of your updates" in refused.json()["error"]
    publish(ann, "ann/o/a", update(9), update(10))
    assert ann.put("/v1/objects/p", json={"streams": {}}).status_code == 429
    assert ann.delete("/v1/objects/o").status_code == 429
    # Others have a backlog of their own.
    publish(ben, "ben/o/a", *(update(n) for n in range(1, 100)))
    told = ben.get("/health").json()["backlog"]
    assert told == {"tenants": 2, "entries": 10 + 99, "bytes": 8 * (10 + 99), "refused": 4}
    site.settle()
    assert ben.get("/health").json()["backlog"]["entries"] == 0
    publish(ann, "ann/o/a", update(11))


def test_bytes_are_bounded_too(site: Site) -> None:
    ann = site.add("ann", backlog_bytes=10_000)
    put(ann, "o", a=simple(t="string"))
    site.settle()
    text = {"channels": {"t": "x" * 1000}}
    statuses = [ann.post("/v1/streams/ann/o/a/updates", json=text).status_code for _ in range(5)]
    assert statuses == [202, 202, 429, 429, 429]
    site.settle()
    publish(ann, "ann/o/a", text)


def test_what_fails_or_is_there_already_takes_no_room(site: Site) -> None:
    ann = site.add("ann", backlog=3)
    put(ann, "o", a=simple(n="number"))
    site.settle()
    publish(ann, "ann/o/a", {**update(1), "offset": 0})
    for _ in range(9):
        publish(ann, "ann/o/a", {**update(1), "offset": 0})
        other = {**update(2), "offset": 0}
        assert ann.post("/v1/streams/ann/o/a/updates", json=other).status_code == 409
        assert ann.delete("/v1/objects/q").status_code == 404
    site.settle()
    assert ann.get("/health").json()["backlog"]["entries"] == 0


def test_an_own_settled_part_is_not_counted_though_others_wait(site: Site) -> None:
    """A tenant is told by its cursor, not by the slowest of all."""
    ann, ben = site.add("ann", backlog=5), site.add("ben")
    for tenant in (ann, ben):
        put(tenant, "o", a=simple(n="number"))
    site.settle()
    publish(ben, "ben/o/a", update(1))
    publish(ann, "ann/o/a", *(update(n) for n in range(1, 6)))
    service = site.service
    service.settled(service.position, {"ann": service.log.end})
    assert ann.get("/health").json()["backlog"]["entries"] == 1
    publish(ann, "ann/o/a", *(update(n) for n in range(6, 11)))


def test_a_backlog_is_known_after_a_restart(tmp_path: Path) -> None:
    first = Site(tmp_path)
    ann = first.add("ann", backlog=10)
    put(ann, "o", a=simple(n="number"))
    publish(ann, "ann/o/a", *(update(n) for n in range(1, 10)))
    first.service.database.close()
    second = Site(tmp_path)
    ann = second.login("ann", first)
    assert ann.post("/v1/streams/ann/o/a/updates", json=update(10)).status_code == 429
    second.settle()
    publish(ann, "ann/o/a", update(10))
    second.service.database.close()
