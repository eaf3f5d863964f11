"""The stages together: documents in, updates in, results in the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.errors import ConflictError, NotFoundError, QuotaError, StoreCorruptError
from holdfast.tenants.machine.documents import DocumentError
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.engine.operating import operate
from holdfast.tenants.process.engine.storing import IncompleteBatchError, last_batch, store
from holdfast.tenants.process.log import Publication
from tests.tenants.machine.graphs import Described, graphs, publications
from tests.tenants.machine.reference import Reference
from tests.tenants.process.rig import SHARED, Platform, derived, replay, simple


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Platform]:
    made = Platform(tmp_path / "store.db")
    yield made
    made.database.close()


def failures(platform: Platform, path: str) -> list[tuple[str, str]]:
    return platform.database.rows(
        "SELECT kind, message FROM failures WHERE path = ? ORDER BY position, number", (path,)
    )


def wind_chill(platform: Platform) -> None:
    platform.put("ann", "roof", streams={"air": {**simple(celsius="number"), **SHARED}})
    platform.put("ben", "mast", streams={"wind": simple(kmh="number")})
    formula = (
        "13.12 + 0.6215 * t.celsius - 11.37 * pow(w.kmh, 0.16) "
        "+ 0.3965 * t.celsius * pow(w.kmh, 0.16)"
    )
    platform.put(
        "ben",
        "chill",
        streams={
            "felt": derived(
                {"t": "ann/roof/air", "w": "mast/wind"},
                {"celsius": formula},
                filter="t.celsius <= 10.0 && w.kmh > 4.8",
            )
        },
    )


def test_wind_chill_of_two_tenants(platform: Platform) -> None:
    wind_chill(platform)
    platform.publish("ann/roof/air", 1_000, celsius=-10.0)
    platform.publish("ben/mast/wind", 2_000, kmh=30.0)
    platform.publish("ann/roof/air", 3_000, celsius=20.0)
    platform.settle()
    (felt,) = platform.updates("ben/chill/felt")
    assert felt["values"]["celsius"] == pytest.approx(-19.52, abs=0.01)
    assert felt["timestamp"] == 2_000
    assert felt["owners"] == ["ann", "ben"]
    assert felt["inputs"] == {"t": ["ann/roof/air", 0], "w": ["ben/mast/wind", 0]}


def test_streams_are_added_changed_and_removed_while_updates_flow(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="number")})
    total = derived({"a": "o/a", "me": "total"}, {"n": "a.n + (me._present ? me.n : 0.0)"})
    for n in range(30):
        if n == 5:
            platform.put("ann", "p", streams={"total": total})
        if n == 15:
            doubled = derived(
                {"a": "o/a", "me": "total"}, {"n": "2.0 * a.n + (me._present ? me.n : 0.0)"}
            )
            platform.put("ann", "p", streams={"total": doubled})
        if n == 25:
            platform.put(
                "ann", "p", streams={"total": total, "more": derived({"a": "o/a"}, {"n": "a.n"})}
            )
        platform.publish("ann/o/a", n + 1, n=1.0)
    platform.settle()
    assert len(platform.updates("ann/o/a")) == 30
    assert platform.values("ann/p/total", "n") == [
        *(float(n) for n in range(1, 11)),
        *(10.0 + 2 * n for n in range(1, 11)),
        *(30.0 + n for n in range(1, 6)),
    ]
    assert len(platform.updates("ann/p/more")) == 5
    platform.catalog.delete("ann", "p")
    platform.publish("ann/o/a", 100, n=1.0)
    platform.settle()
    assert platform.updates("ann/p/total") == []
    assert len(platform.updates("ann/o/a")) == 31


def test_a_failing_expression_is_told_on_the_streams_own_error_channel(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="integer")})
    inverse = {
        "channels": {"n": {"type": "integer", "expression": "100 / a.n"}},
        "inputs": {"a": {"stream": "o/a"}},
    }
    platform.put("ann", "p", streams={"inverse": inverse})
    for at, n in enumerate([5, 0, 4], 1):
        platform.publish("ann/o/a", at, n=n)
    platform.settle()
    assert platform.values("ann/p/inverse", "n") == [20, 25]
    assert failures(platform, "ann/p/inverse") == [
        ("expression", "channels.n: INVALID_ARGUMENT: divide by zero")
    ]


def test_an_input_that_changes_its_channels_breaks_what_depends_on_it_visibly(
    platform: Platform,
) -> None:
    platform.put("ann", "o", streams={"a": {**simple(n="number"), **SHARED}})
    platform.put("ben", "p", streams={"b": derived({"a": "ann/o/a"}, {"n": "a.n"})})
    platform.publish("ann/o/a", 1, n=1.0)
    platform.put("ann", "o", streams={"a": {**simple(m="number"), **SHARED}})
    platform.publish("ann/o/a", 2, m=1.0)
    platform.settle()
    assert platform.values("ben/p/b", "n") == [1.0]
    ((kind, message),) = failures(platform, "ben/p/b")
    assert kind == "expression"
    assert "an input has changed" in message


def test_the_members_of_a_query_follow(platform: Platform) -> None:
    thermometer = {**simple(c="number"), "description": {"kind": "air", "unit": "C"}}
    query = {"match": {"kind": "air"}, "channels": {"c": "number"}}
    hottest = {
        "channels": {
            "c": {"type": "number", "expression": "window.top"},
            "n": {"type": "integer", "expression": "window._count"},
        },
        "inputs": {"any": {"query": query}},
        "aggregate": {
            "input": "any",
            "over": "partitions",
            "expiry": "10us",
            "fields": {"top": {"function": "max", "of": "any.c"}},
        },
    }
    platform.put("ann", "o", streams={"a": {**thermometer, **SHARED}, "secret": thermometer})
    platform.put("ben", "q", streams={"hottest": hottest})
    platform.publish("ann/o/a", 1, c=10.0)
    platform.publish("ann/o/secret", 2, c=99.0)
    platform.put(
        "cid", "o", streams={"b": {**thermometer, **SHARED}, "x": {**simple(d="number"), **SHARED}}
    )
    platform.publish("cid/o/b", 3, c=5.0)
    platform.publish("ann/o/a", 4, c=1.0)
    platform.put("cid", "o", streams={"b": {**simple(c="number"), **SHARED}})
    platform.publish("cid/o/b", 5, c=50.0)
    platform.publish("ann/o/a", 20, c=2.0)
    platform.settle()
    assert platform.values("ben/q/hottest", "c") == [10.0, 10.0, 5.0, 2.0]
    assert platform.values("ben/q/hottest", "n") == [1, 2, 2, 1]


def test_nobody_reads_what_is_not_shared_and_nobody_can_tell_that_it_is_there(
    platform: Platform,
) -> None:
    platform.put("ann", "o", streams={"a": simple(n="number")})
    said = []
    for path in ("ann/o/a", "ann/o/nothing"):
        with pytest.raises(DocumentError) as caught:
            platform.put("eve", "p", streams={"b": derived({"a": path}, {"n": "a.n"})})
        said.append(str(caught.value).replace(path, "PATH"))
    assert said[0] == said[1]


def test_access_that_is_taken_back_ends_at_once_and_can_come_back(platform: Platform) -> None:
    shared, closed = (
        {**simple(n="number"), **SHARED},
        {
            **simple(n="number"),
            "access": {"allow": ["*"], "deny": ["eve"]},
        },
    )
    platform.put("ann", "o", streams={"a": shared})
    for tenant in ("eve", "ben"):
        platform.put(tenant, "p", streams={"b": derived({"a": "ann/o/a"}, {"n": "a.n"})})
    for at, access in enumerate([shared, closed, shared], 1):
        platform.put("ann", "o", streams={"a": access})
        platform.publish("ann/o/a", at, n=float(at))
    platform.settle()
    assert platform.values("eve/p/b", "n") == [1.0, 3.0]
    assert platform.values("ben/p/b", "n") == [1.0, 2.0, 3.0]


def test_quotas(platform: Platform) -> None:
    platform.quotas = Quotas(streams=3, inputs=1, depth=2, fan_out=2)
    platform.put("ann", "o", streams={"a": {**simple(n="number"), **SHARED}})
    with pytest.raises(QuotaError, match="streams: you have 1"):
        platform.put("ann", "p", streams={name: simple(n="number") for name in "xyz"})
    with pytest.raises(QuotaError, match=r"streams\.b\.inputs"):
        platform.put("ann", "p", streams={"b": derived({"x": "o/a", "y": "o/a"}, {"n": "x.n"})})
    platform.put("ann", "p", streams={"b": derived({"a": "o/a"}, {"n": "a.n"})})
    platform.put("ann", "q", streams={"c": derived({"a": "p/b"}, {"n": "a.n"})})
    platform.quotas = Quotas(depth=2, fan_out=2)
    with pytest.raises(QuotaError, match="one after the other"):
        platform.put("ann", "r", streams={"d": derived({"a": "q/c"}, {"n": "a.n"})})
    platform.put("ben", "p", streams={"b": derived({"a": "ann/o/a"}, {"n": "a.n"})})
    with pytest.raises(QuotaError, match="is taken by 3"):
        platform.put("cid", "p", streams={"b": derived({"a": "ann/o/a"}, {"n": "a.n"})})


def test_an_offset_said_twice_counts_once(platform: Platform) -> None:
    platform.put("ann", "o", streams={"a": simple(n="number")})
    first = Publication("ann/o/a", 5, {"n": 1.0}, offset=7)
    (one,) = platform.log.append([first])
    (again,) = platform.log.append([first])
    assert (one.offset, one.duplicate, again.position, again.duplicate) == (
        7,
        False,
        one.position,
        True,
    )
    with pytest.raises(ConflictError):
        platform.log.append([Publication("ann/o/a", 5, {"n": 2.0}, offset=7)])
    platform.settle()
    assert platform.values("ann/o/a", "n") == [1.0]


def test_late_updates_are_kept_and_set_nothing_off(platform: Platform) -> None:
    platform.put(
        "ann", "o", streams={"a": simple(n="number"), "b": derived({"a": "a"}, {"n": "a.n"})}
    )
    for at in (10, 5, 10, 11):
        platform.publish("ann/o/a", at, n=float(at))
    platform.settle()
    assert platform.values("ann/o/b", "n") == [10.0, 11.0]
    rows = platform.database.rows(
        "SELECT timestamp, late FROM updates WHERE path = 'ann/o/a' ORDER BY number"
    )
    assert rows == [(10, 0), (5, 1), (10, 1), (11, 0)]


def test_a_window_is_the_same_wherever_batches_begin(tmp_path: Path) -> None:
    contents = []
    for batch in (1, 7, 1000):
        platform = Platform(tmp_path / f"{batch}.db", batch)
        mean = derived(
            {"a": "o/a"},
            {"n": "window.mean", "s": "window.total"},
            aggregate={
                "input": "a",
                "size": "10us",
                "fields": {
                    "mean": {"function": "mean", "of": "a.n"},
                    "total": {"function": "sum", "of": "a.n"},
                },
            },
        )
        last = derived(
            {"a": "o/a"},
            {"n": "window.total"},
            aggregate={
                "input": "a",
                "count": 3,
                "fields": {"total": {"function": "sum", "of": "a.n"}},
            },
        )
        platform.put("ann", "o", streams={"a": simple(n="number")})
        platform.put("ann", "p", streams={"mean": mean, "last": last})
        for at in range(1, 60):
            key = "rare" if at % 20 == 1 else "often"
            platform.publish("ann/o/a", at + at % 3, key, n=0.1 * at)
        platform.settle()
        assert len(platform.updates("ann/p/mean")) > 30
        rare = [u for u in platform.updates("ann/p/last") if u["key"] == "rare"]
        assert [u["values"]["n"] for u in rare] == pytest.approx([0.1, 2.2, 6.3])
        contents.append(platform.contents())
        platform.database.close()
    assert contents[0] == contents[1] == contents[2]


def as_document(described: Described) -> dict[str, Any]:
    total = " + ".join(
        f"(i{n}._present ? {3 * n + 1} * i{n}.n : 0)" for n in range(len(described.inputs))
    )
    total = f"({described.constant} + ({total}) % 1009)"
    expression = f"{total} + 0 / ({total} % {described.fails})" if described.fails else total
    query = {"match": {}, "channels": {"n": "integer"}}
    inputs = {
        f"i{n}": (
            {"query": {**query, "match": {f"{described.name.replace('/', '_')}_{n}": "yes"}}}
            if n in described.queries
            else {"stream": paths[0]}
        )
        | ({"optional": True} if n in described.optional else {})
        for n, paths in enumerate(described.inputs)
    }
    return {
        "channels": {"n": {"type": "integer", "expression": expression}},
        "inputs": inputs,
        **({"filter": f"{total} % {described.drops} != 0"} if described.drops else {}),
        **({"group": f"'k' + string({total} % {described.groups})"} if described.groups else {}),
        **SHARED,
    }


def _may_be_put(graph: tuple[list[str], list[Described]]) -> bool:
    """A stream that takes nothing but itself is refused."""
    return all(
        each.queries or any(paths[0] != each.name for paths in each.inputs) for each in graph[1]
    )


@given(st.data(), st.integers(1, 20))
# To make a failure smaller would take minutes: everything is written to disk.
@settings(max_examples=25, phases=[Phase.generate])
def test_all_stages_as_the_reference(
    tmp_path_factory: Any, data: st.DataObject, batch: int
) -> None:
    """Random graphs of two tenants, in real expressions, whatever the batches are."""
    simple_paths, described = data.draw(graphs(most=5).filter(_may_be_put))
    updates = data.draw(publications(simple_paths))
    expected = Reference(100)
    expected.streams = {each.name: each.as_reference() for each in described}
    platform = Platform(tmp_path_factory.mktemp("p") / "store.db", batch)
    documents = {path: {**simple(n="integer"), **SHARED} for path in simple_paths}
    documents |= {each.name: as_document(each) for each in described}
    for each in described:
        for n in each.queries:
            for path in each.inputs[n]:
                tags = documents[path].setdefault("description", {})
                tags[f"{each.name.replace('/', '_')}_{n}"] = "yes"
    # Cycles between tenants cannot be put at once: first all as simple streams, then as they are.
    for final in (False, True):
        for tenant in "ab":
            streams = {
                path.split("/")[2]: document if final else {**simple(n="integer"), **SHARED}
                for path, document in documents.items()
                if path.startswith(tenant)
            }
            platform.put(tenant, "o", streams=streams)
    platform.settle()
    made = [Publication(path, at, {"n": value}) for path, at, value in updates]
    receipts = platform.log.append(made)
    at_position = {receipt.position: each for receipt, each in zip(receipts, updates, strict=True)}
    for position in platform.settle():
        stream, timestamp, value = at_position.pop(position)
        expected.publish(stream, timestamp, {"n": value})
    assert not at_position
    for name in expected.streams:
        wanted = [(e.key, e.timestamp, e.values) for e in expected.emitted if e.stream == name]
        found = [(u.get("key", ""), u["timestamp"], u["values"]) for u in platform.updates(name)]
        assert found == wanted
        failed = sum(stream == name for stream, _ in expected.failed)
        assert len(failures(platform, name)) == failed
    platform.database.close()


def test_replaying_the_log_gives_the_same(tmp_path: Path) -> None:
    live = Platform(tmp_path / "live.db", 3)
    wind_chill(live)
    for at in range(1, 50):
        live.publish("ann/roof/air", at * 10, celsius=float(at % 17 - 5))
        if at % 2:
            live.publish("ben/mast/wind", at * 10 + 3, kmh=float(at))
        if at == 20:
            live.put(
                "ann", "more", streams={"air": derived({"t": "roof/air"}, {"c": "t.celsius * 2.0"})}
            )
        if at % 7 == 0:
            live.step()
    live.settle()
    replayed = replay(live, tmp_path / "replayed.db")
    assert replayed.contents() == live.contents()
    assert len(live.updates("ben/chill/felt")) > 20


def test_documents_are_versioned_and_the_same_one_is_no_change(platform: Platform) -> None:
    streams = {"a": simple(n="number")}
    assert platform.put("ann", "o", streams=streams) == 1
    end = platform.log.end
    assert platform.put("ann", "o", streams=streams) == 1
    assert platform.log.end == end
    platform.catalog.delete("ann", "o")
    with pytest.raises(NotFoundError):
        platform.catalog.get("ann", "o")
    assert platform.put("ann", "o", streams=streams) == 2


def test_publications_of_many_threads_are_all_there_once(platform: Platform) -> None:
    platform.put("ann", "o", streams={name: simple(n="number") for name in "abcd"})
    receipts: list[Any] = []

    def publish(name: str) -> None:
        for at in range(50):
            receipts.append(platform.publish(f"ann/o/{name}", at + 1, n=float(at)))

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({receipt.position for receipt in receipts}) == 200
    platform.settle()
    for name in "abcd":
        assert platform.values(f"ann/o/{name}", "n") == [float(n) for n in range(50)]


def test_a_batch_that_is_run_again_changes_nothing(platform: Platform) -> None:
    """As Spark does after a crash between the store and its own checkpoint."""
    wind_chill(platform)
    platform.settle()
    platform.publish("ann/roof/air", 1_000, celsius=-10.0)
    platform.publish("ben/mast/wind", 2_000, kmh=30.0)
    batch = last_batch(platform.database) + 1
    assert platform.planner.record(batch)
    outcomes = [operate(bundle) for bundle in platform.planner.plan(batch)]
    with pytest.raises(IncompleteBatchError):
        store(platform.database, batch, [])
    assert store(platform.database, batch, outcomes)
    once = platform.contents()
    again = [operate(bundle) for bundle in platform.planner.plan(batch)]
    assert not store(platform.database, batch, again)
    assert platform.contents() == once
    with pytest.raises(StoreCorruptError):
        store(platform.database, batch + 5, [])


def test_idle_streams_are_not_looked_at(platform: Platform) -> None:
    streams = {f"s{n}": simple(n="number") for n in range(100)}
    streams |= {f"c{n}": derived({"a": f"s{n}"}, {"n": "a.n"}) for n in range(100)}
    platform.put("ann", "o", streams=streams)
    platform.settle()
    platform.publish("ann/o/s7", 1, n=1.0)
    batch = last_batch(platform.database) + 1
    assert platform.planner.record(batch)
    (bundle,) = platform.planner.plan(batch)
    assert [node.path for node in bundle.nodes] == ["ann/o/c7"]


def test_what_others_derive_does_not_keep_a_tenant_from_its_own(platform: Platform) -> None:
    """A chain that follows whatever has a tag is its owner's, however deep."""
    platform.quotas = Quotas(depth=3)
    tagged = {"description": {"kind": "air"}, **SHARED}
    query = {"match": {"kind": "air"}, "channels": {"n": "number"}}
    first = {
        "channels": {"n": {"type": "number", "expression": "i.n"}},
        "inputs": {"i": {"query": query}},
    }
    chain = {f"c{n}": derived({"i": f"c{n - 1}"}, {"n": "i.n"}) for n in range(1, 3)}
    platform.put("eve", "o", streams={"c0": first, **chain})
    platform.put("ann", "o", streams={"a": simple(n="number")})
    platform.put("ann", "p", streams={"b": {**derived({"a": "o/a"}, {"n": "a.n"}), **tagged}})
    platform.publish("ann/o/a", 1, n=1.0)
    platform.settle()
    assert platform.values("eve/o/c2", "n") == [1.0]


def test_a_stream_that_is_published_to_may_become_calculated_and_the_other_way(
    platform: Platform,
) -> None:
    """Both kinds count their offsets: one must not meet the other's in the store."""
    platform.put("ann", "o", streams={"a": simple(n="number")})
    made = [derived({"a": "o/a"}, {"n": "a.n"}), simple(n="number")]
    offsets = []
    for at in range(1, 13):
        platform.put("ann", "p", streams={"b": made[at % 2]})
        for _ in range(at % 3):
            path = "ann/p/b" if at % 2 else "ann/o/a"
            platform.publish(path, 10 * at + len(offsets), n=float(at))
            offsets.append(-1)
        platform.settle()
        found = [update["offset"] for update in platform.updates("ann/p/b")]
        assert len(found) == at % 3
        assert found == sorted(found)
        assert not found or found[0] > max((o for o in offsets if o >= 0), default=-1)
        offsets += found
