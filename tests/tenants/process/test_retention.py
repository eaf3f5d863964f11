"""Old updates go, visibly; what is calculated does not change for that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.tenants.process.client import Client, UpdatesDroppedError
from holdfast.tenants.process.retention import FAILURES, Retention
from tests.tenants.process.rig import derived, simple
from tests.tenants.process.test_client import served
from tests.tenants.process.test_http import Site, publish, put


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def offsets(site: Site, client: Any, path: str) -> list[int]:
    answer = client.get(f"/v1/streams/{path}/updates", params={"limit": 1000})
    return [each["offset"] for each in answer.json()]


def some(first: int, count: int) -> list[dict[str, Any]]:
    return [{"timestamp": at, "channels": {"n": 1}} for at in range(first, first + count)]


def test_by_number_by_age_and_by_quota(site: Site) -> None:
    ann = site.add("ann", kept=50)
    put(
        ann,
        "o",
        a=simple(n="number"),
        few={**simple(n="number"), "keep": {"count": 10}},
        young={**simple(n="number"), "keep": {"age": "20us"}},
        greedy={**simple(n="number"), "keep": {"count": 10**6}},
    )
    for name in ("a", "few", "young", "greedy"):
        publish(ann, f"ann/o/{name}", *some(1, 100))
    site.settle()
    retention = Retention(site.service)
    assert retention.sweep() == 50 + 90 + 80 + 50
    assert retention.sweep() == 0
    assert offsets(site, ann, "ann/o/a") == list(range(50, 100))
    assert offsets(site, ann, "ann/o/few") == list(range(90, 100))
    assert offsets(site, ann, "ann/o/young") == list(range(80, 100))
    assert offsets(site, ann, "ann/o/greedy") == list(range(50, 100))
    kept = ann.get("/v1/streams/ann/o/few").json()["kept"]
    assert kept == {"count": 10, "age": None, "dropped": 90, "from": 90}
    # A little more than that may be there for a while.
    publish(ann, "ann/o/few", *some(200, 1))
    site.settle()
    assert retention.sweep() == 0


def test_windows_offsets_and_the_server_go_on_as_if_nothing_had_gone(site: Site) -> None:
    ann = site.add("ann", kept=5)
    fields = {"total": {"function": "sum", "of": "a.n"}}
    put(
        ann,
        "o",
        a=simple(n="number"),
        total=derived(
            {"a": "a"},
            {"n": "window.total"},
            aggregate={"input": "a", "count": 60, "fields": fields},
        ),
    )
    publish(ann, "ann/o/a", *some(1, 100))
    site.settle()
    Retention(site.service).sweep()
    # From the beginning, with what the disk has.
    again = Site(site.service.database._path.parent)  # type: ignore[attr-defined]
    ann = again.login("ann", site)
    (receipt,) = publish(ann, "ann/o/a", *some(101, 1))
    assert receipt["offset"] == 100
    again.settle()
    assert ann.get("/v1/streams/ann/o/total/last").json()["values"] == {"n": 60.0}
    # What was dropped is known to have been there.
    old = {**some(1, 1)[0], "offset": 3}
    assert ann.post("/v1/streams/ann/o/a/updates", json=old).status_code == 409
    again.service.database.close()


def test_failures_are_not_kept_for_ever(site: Site) -> None:
    ann = site.add("ann", updates_per_second=1e6, burst=10**6)
    put(ann, "o", a=simple(n="number"), root=derived({"a": "a"}, {"n": "sqrt(0.0 - a.n)"}))
    for start in range(0, FAILURES + 200, 600):
        publish(ann, "ann/o/a", *some(start + 1, 600))
    site.settle()
    Retention(site.service).sweep()
    rows = site.service.database.rows("SELECT count(*) FROM failures WHERE path = 'ann/o/root'")
    assert rows[0][0] == FAILURES


def test_what_the_broker_has_not_got_stays(site: Site) -> None:
    ann = site.add("ann", kept=5)
    put(ann, "o", a=simple(n="number"))
    publish(ann, "ann/o/a", *some(1, 20))
    site.settle()
    assert Retention(site.service, has_broker=True).sweep() == 0
    assert Retention(site.service).sweep() == 15


def test_a_follower_that_was_away_too_long_is_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ann = site.add("ann", kept=5)
    put(ann, "o", a=simple(n="number"))
    publish(ann, "ann/o/a", *some(1, 20))
    site.settle()
    Retention(site.service).sweep()
    token = ann.headers["authorization"].removeprefix("Bearer ")
    with served(site) as address:
        client = Client(address, token)
        with pytest.raises(UpdatesDroppedError, match="updates 4 to 14 are not kept") as caught:
            next(client.follow("ann/o/a", after=3))
        follower = client.follow("ann/o/a", after=caught.value.before - 1)
        assert next(follower)["offset"] == 15
        # From the beginning means from what there is.
        assert next(client.follow("ann/o/a"))["offset"] == 15
