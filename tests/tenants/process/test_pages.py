"""Updates in pages are found as those in rows are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from holdfast.tenants.machine.documents import Near
from holdfast.tenants.process.backlog import Kept
from holdfast.tenants.process.log import Publication
from holdfast.tenants.process.provenance import Provenance
from holdfast.tenants.process.reading import Reading, Wanted
from holdfast.tenants.process.retention import Retention, _by_age, _by_count
from holdfast.tenants.process.store.pages import between_positions
from tests.tenants.process.rig import Platform, derived, simple, stored_updates
from tests.tenants.process.test_http import Site, publish, put

PATHS = ("ann/o/a", "ann/o/b", "ann/o/c", "ann/o/word", "ann/o/place", "ann/o/total")


def filled(place: Path, batch: int) -> Platform:
    """Plain updates, late ones, partitions, text and places; offsets with gaps."""
    platform = Platform(place, batch)
    streams = {
        "a": simple(n="number"),
        "b": derived({"a": "a"}, {"n": "a.n + 1.0", "m": "a.n * 2.0"}),
        "c": derived({"b": "b", "a": "a"}, {"n": "b.n / a.n"}),
        "total": derived({"a": "a", "me": "total"}, {"n": "a.n + (me._present ? me.n : 0.0)"}),
        "s": simple(t="string", n="number"),
        "word": {
            "channels": {"t": {"type": "string", "expression": "s.t"}},
            "inputs": {"s": {"stream": "s"}},
        },
        "at": simple(latitude="number", longitude="number"),
        "place": derived(
            {"at": "at"}, {"latitude": "at.latitude + 0.5", "longitude": "at.longitude"}
        ),
    }
    platform.put("ann", "o", streams=streams)
    platform.settle()
    rng = random.Random(1)
    clock = offset = 0
    made = []
    for _ in range(300):
        clock += rng.randrange(1, 4)
        offset += rng.choice([1, 1, 1, 5])
        key = "k" if rng.random() < 0.02 else ""
        late = 9 if rng.random() < 0.05 else 0
        value = float(rng.randrange(9))
        made.append(Publication("ann/o/a", max(1, clock - late), {"n": value}, key, offset))
        made.append(Publication("ann/o/s", clock, {"t": rng.choice("xyz"), "n": 1.0}))
        made.append(
            Publication("ann/o/at", clock, {"latitude": rng.uniform(0, 3), "longitude": 0.0})
        )
    for start in range(0, len(made), 150):
        platform.log.append(made[start : start + 150])
        platform.settle()
    return platform


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Platform, Platform]]:
    """Batches of one update each, of which all are rows; and large ones."""
    folder = tmp_path_factory.mktemp("pages")
    rows, pages = filled(folder / "rows.db", 1), filled(folder / "pages.db", 1000)
    yield rows, pages
    for platform in (rows, pages):
        platform.database.close()


def test_both_have_the_same_updates(both: tuple[Platform, Platform]) -> None:
    rows, pages = both
    assert rows.contents() == pages.contents()
    assert rows.database.rows("SELECT count(*) FROM pages")[0][0] == 0
    paged = pages.database.rows("SELECT path, sum(count) FROM pages GROUP BY path")
    assert dict(paged).keys() == {"ann/o/a", "ann/o/b", "ann/o/c", "ann/o/total"}


def test_questions_have_the_same_answers(both: tuple[Platform, Platform]) -> None:
    rows, pages = (Reading(each.database, Provenance(each.database)) for each in both)
    asked = [
        Wanted(since, until, after, key, text, near, limit)
        for (since, until), after, (key, text, near), limit in product(
            [(-(2**62), 2**62), (100, 300), (299, 300)],
            [-1, 0, 77, 10_000],
            [
                (None, None, None),
                ("", None, None),
                ("k", None, None),
                (None, "*", None),
                (None, "**", None),
                (None, "x*", None),
                (None, "?", None),
                (None, None, Near(1.0, 0.0, 50.0)),
            ],
            [1, 10, 1000],
        )
    ]
    found = 0
    for path in PATHS:
        for wanted in asked:
            answer = rows.updates("ann", path, wanted)
            assert pages.updates("ann", path, wanted) == answer, (path, wanted)
            found += len(answer)
        for key in (None, "", "k"):
            try:
                last = rows.last("ann", path, key)
            except Exception as error:
                with pytest.raises(type(error)):
                    pages.last("ann", path, key)
            else:
                assert pages.last("ann", path, key) == last
    assert found > 10_000


def test_what_goes_to_a_broker_is_the_same(both: tuple[Platform, Platform]) -> None:
    _, pages = both
    paged = {
        (update.stream, update.offset)
        for _, _, update in between_positions(pages.database, 0, 2**62, 2**62)
    }
    inside = [row for row in stored_updates(pages.database) if tuple(row[:2]) in paged]
    wanted = sorted((row[2], row[0], row[1]) for row in inside)
    for after, until, most in product([0, 100, 333], [400, 10_000], [1, 7, 100]):
        found = [
            (at, path, update.offset)
            for at, path, update in between_positions(pages.database, after, until, most)
        ]
        within = [each for each in wanted if after < each[0] <= until]
        # All of each position, up to the one of the last that was wanted.
        bound = within[most - 1][0] if len(within) > most else until
        assert found == [each for each in within if each[0] <= bound]


def test_what_is_old_is_the_same(both: tuple[Platform, Platform]) -> None:
    for path in PATHS:
        offsets = [row[1] for row in stored_updates(both[0].database) if row[0] == path]
        for kept in (Kept(1, None), Kept(50, None), Kept(200, 100), Kept(10**6, 5)):
            cuts = [
                (
                    _by_count(each.database, path, kept, offsets[0], offsets[-1]),
                    _by_age(each.database, path, kept, offsets[-1]),
                )
                for each in both
            ]
            assert cuts[0] == cuts[1]


def some(first: int, count: int) -> list[dict[str, Any]]:
    return [{"timestamp": at, "channels": {"n": 1}} for at in range(first, first + count)]


def test_a_page_is_cut_where_old_updates_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ann = site.add("ann", kept=50)
    put(ann, "o", a=simple(n="number"), b=derived({"a": "a"}, {"n": "a.n"}))
    retention = Retention(site.service)
    for start in range(1, 400, 30):
        publish(ann, "ann/o/a", *some(start, 30))
        site.settle()
        retention.sweep()
        for path in ("ann/o/a", "ann/o/b"):
            answer = ann.get(f"/v1/streams/{path}/updates", params={"limit": 1000}).json()
            offsets = [each["offset"] for each in answer]
            assert offsets == list(range(offsets[0], start + 29))
            assert min(50, start + 29) <= len(offsets) <= 55
            kept = ann.get(f"/v1/streams/{path}").json()["kept"]
            assert kept["dropped"] == kept["from"] == offsets[0]
    site.service.database.close()


def test_a_stream_that_is_removed_leaves_no_page(tmp_path: Path) -> None:
    platform = filled(tmp_path / "store.db", 1000)
    platform.catalog.delete("ann", "o")
    platform.settle()
    assert platform.database.rows("SELECT count(*) FROM pages")[0][0] == 0
    platform.database.close()
