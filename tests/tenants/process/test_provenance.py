"""Access along provenance: nobody reads data that an owner of them denies, by whatever way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from holdfast.errors import ForbiddenError, HoldfastError
from holdfast.tenants.machine.documents import Access
from holdfast.tenants.machine.provenance import refusing, rules_behind
from holdfast.tenants.process.deliveries import Deliveries
from holdfast.tenants.process.http.events import Events
from holdfast.tenants.process.http.requests import Admission
from holdfast.tenants.process.reading import Reading, Wanted
from tests.tenants.process.rig import SHARED, Platform, derived, replay, simple
from tests.tenants.process.test_http import Site, publish, put

ALL = {"allow": ["*"]}
BUT_EVE = {"allow": ["*"], "deny": ["eve"]}
DENIED = "ben/o/b has data of ann, who does not let you read them; ask ann for access"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.service.database.close()


def client(site: Site, name: str) -> TestClient:
    return site.clients.get(name) or site.add(name)


def access(client: TestClient, given_: Any, **more: Any) -> None:
    put(client, "o", a={**simple(x="number"), "access": given_, **more})


def three(site: Site, given_: Any = BUT_EVE) -> tuple[TestClient, TestClient, TestClient]:
    """Ann has data, Ben derives from them and shares it with everybody, Eve wants it."""
    ann, ben, eve = (client(site, name) for name in ("ann", "ben", "eve"))
    access(ann, given_)
    mine = derived({"p": "ann/o/a"}, {"x": "p.x"}, description={"kind": "air"}, **SHARED)
    put(ben, "o", b=mine, c=derived({"p": "b"}, {"x": "p.x"}, **SHARED))
    return ann, ben, eve


def bring(site: Site, client: TestClient, at: int) -> None:
    publish(client, "ann/o/a", {"timestamp": at, "channels": {"x": at}})
    site.settle()


@pytest.mark.parametrize("given_", [BUT_EVE, {"allow": ["ben"]}, {"allow": ["ben"], "deny": ["*"]}])
def test_what_is_denied_cannot_be_read_from_what_others_made_of_it(site: Site, given_: Any) -> None:
    if given_.get("deny") == ["*"]:
        ann, ben, eve = three(site)
        access(ann, given_)
        assert ben.get("/v1/streams/ben/o/b/last").status_code == 403
    else:
        ann, ben, eve = three(site, given_)
    bring(site, ann, 1)
    for stream in ("ben/o/b", "ben/o/c"):
        for what in ("", "/last", "/updates", "/events"):
            answer = eve.get(f"/v1/streams/{stream}{what}")
            assert answer.status_code == 403, (stream, what, answer.text)
            assert f"{stream} has data of ann, who does not let you" in answer.json()["error"]
    assert eve.get("/v1/streams?tags=kind:air").json() == []
    answer = eve.put(
        "/v1/objects/o", json={"streams": {"e": derived({"p": "ben/o/b"}, {"x": "p.x"})}}
    )
    assert answer.status_code == 400
    assert answer.json()["error"] == f"streams.e.inputs.p: {DENIED}"


def test_who_is_allowed_by_all_reads_it(site: Site) -> None:
    ann, ben, _ = three(site)
    cid = site.add("cid")
    bring(site, ann, 1)
    for client in (ann, ben, cid):
        assert client.get("/v1/streams/ben/o/c/last").json()["values"] == {"x": 1.0}
    assert [s["stream"] for s in cid.get("/v1/streams?tags=kind:air").json()] == ["ben/o/b"]


def test_an_owner_may_share_what_it_made_of_data_that_it_keeps(site: Site) -> None:
    ann, eve = site.add("ann"), site.add("eve")
    put(ann, "o", a=simple(x="number"), mean=derived({"p": "a"}, {"x": "p.x"}, **SHARED))
    bring(site, ann, 1)
    assert eve.get("/v1/streams/ann/o/a/last").status_code == 404
    assert eve.get("/v1/streams/ann/o/mean/last").json()["values"] == {"x": 1.0}


def test_streams_of_somebody_who_is_denied_later_stop_and_tell_it(site: Site) -> None:
    ann, _, eve = three(site, ALL)
    put(eve, "o", e=derived({"p": "ben/o/b"}, {"x": "p.x"}), f=derived({"p": "e"}, {"x": "p.x"}))
    bring(site, ann, 1)
    assert eve.get("/v1/streams/eve/o/f/last").json()["values"] == {"x": 1.0}
    access(ann, BUT_EVE)
    bring(site, ann, 2)
    for stream in ("eve/o/e", "eve/o/f"):
        assert eve.get(f"/v1/streams/{stream}/updates").status_code == 403
    kept = site.service.database.rows("SELECT count(*) FROM updates WHERE path LIKE 'eve/%'")
    assert kept == [(2,)]
    (error,) = eve.get("/v1/streams/eve/o/e/errors").json()
    assert (error["kind"], error["message"]) == ("access", f"inputs.p: {DENIED}")
    state = eve.get("/v1/streams/eve/o/e").json()
    assert state["refused"].startswith("eve/o/e has data of ann")
    assert state["refused_inputs"] == {"ben/o/b": DENIED}
    # And it can come back.
    access(ann, ALL)
    bring(site, ann, 3)
    assert [u["values"]["x"] for u in eve.get("/v1/streams/eve/o/f/updates").json()] == [1.0, 3.0]
    assert eve.get("/v1/streams/eve/o/e").json()["refused_inputs"] == {}


def test_what_was_stored_stays_denied_when_the_stream_becomes_another(site: Site) -> None:
    ann, ben, eve = three(site)
    bring(site, ann, 1)
    put(ben, "o", b={**simple(x="number"), **SHARED})
    assert eve.get("/v1/streams/ben/o/b/updates").status_code == 403
    ann.delete("/v1/objects/o")
    site.settle()
    assert eve.get("/v1/streams/ben/o/b/updates").status_code == 403
    # Ann may write it again, and let all read it.
    access(ann, ALL)
    assert eve.get("/v1/streams/ben/o/b/updates").status_code == 200


def test_whoever_follows_is_told_who_denied_it(site: Site) -> None:
    ann, _, eve = three(site, ALL)
    bring(site, ann, 1)
    tenant = site.service.registry.who(eve.headers["authorization"])

    class Connection:
        async def is_disconnected(self) -> bool:
            return False

    async def got() -> list[bytes]:
        found = []
        async for each in Events(site.service, Admission(site.service.rates)).of(
            Connection(),  # type: ignore[arg-type]
            tenant,
            "ben/o/c",
            -1,
            lambda: None,
        ):
            found.append(each)
            if each.startswith(b"id: 0"):
                await anyio.to_thread.run_sync(access, ann, BUT_EVE)
                await anyio.to_thread.run_sync(bring, site, ann, 2)
        return found

    _, first, last = anyio.run(got)
    assert b'"x":1.0' in first
    assert last.startswith(b'event: end\ndata: {"status":403,"error":"stream: ben/o/c has data of')


def test_an_action_that_was_set_off_before_is_not_done(site: Site) -> None:
    ann, _, eve = three(site, ALL)
    alarm = derived({"p": "ben/o/b"}, {"x": "p.x"}, actions=[{"action": "tell"}])
    document = {
        "streams": {"alarm": alarm},
        "actions": {"tell": {"webhook": "http://127.0.0.1:9/never"}},
    }
    assert eve.put("/v1/objects/o", json=document).status_code == 200
    bring(site, ann, 1)
    access(ann, BUT_EVE)
    assert Deliveries(site.service).deliver("eve") == 1
    (call,) = eve.get("/v1/calls").json()
    assert call["said"].startswith("not done: eve/o/alarm has data of ann")


def brute_force(
    accesses: dict[str, Access], inputs: dict[str, set[str]], reader: str, path: str
) -> bool:
    """Every way that data can come: on each the last stream of each owner has to admit."""

    def ways(at: str, seen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield (*seen, at)
        for source in inputs.get(at, ()):
            if source not in seen and source != at:
                yield from ways(source, (*seen, at))

    for way in ways(path, ()):
        owners = [each.partition("/")[0] for each in way]
        if owners[-1] in owners[:-1]:
            continue
        if owners[-1] != reader and not accesses[way[-1]].admits(reader):
            return False
    return True


TENANTS = ["ann", "ben", "cid", "eve"]
_some = st.lists(st.sampled_from([*TENANTS, "*"]), max_size=3)


@settings(max_examples=400)
@given(st.data())
def test_rules_of_random_graphs_are_those_of_all_ways(data: st.DataObject) -> None:
    paths = [f"{data.draw(st.sampled_from(TENANTS))}/o/s{n}" for n in range(6)]
    inputs = {path: data.draw(st.sets(st.sampled_from(paths), max_size=3)) for path in paths}
    accesses = {path: Access(data.draw(_some), data.draw(_some)) for path in paths}

    def sources(targets: list[str]) -> list[tuple[str, str]]:
        return [(source, target) for target in targets for source in inputs[target]]

    asked = data.draw(st.lists(st.sampled_from(paths), min_size=1))
    first = rules_behind(asked[:1], sources, lambda _: accesses, {}).rules
    rules = {**first, **rules_behind(asked, sources, lambda _: accesses, first).rules}
    for path in asked:
        for reader in TENANTS:
            expected = brute_force(accesses, inputs, reader, path)
            assert (not refusing(rules[path], reader)) == expected, (path, reader)


class World:
    """Random documents of four tenants, and an oracle that follows single updates."""

    def __init__(self, place: Path, seed: int, *, has_queries: bool) -> None:
        self.has_queries = has_queries
        self.platform = Platform(place)
        self.reading = Reading(self.platform.database)
        self.chance = random.Random(seed)
        self.access: dict[str, Access] = {}
        """Of streams as they are, or were when they were removed."""
        self.inputs: dict[str, set[str]] = {}
        self.updates: dict[tuple[str, int], dict[str, Any]] = {}
        """All that were ever stored: those of removed streams are in others."""
        self.needs: dict[tuple[str, int], frozenset[str]] = {}
        self.at = 0

    def any_access(self) -> dict[str, list[str]]:
        allow = [["*"], ["*"], ["ann", "ben"], ["cid"]]
        return {
            "allow": self.chance.choice(allow),
            "deny": self.chance.choice([[], [], [], [self.chance.choice(TENANTS)]]),
        }

    def change(self) -> None:
        tenant = self.chance.choice(TENANTS)
        name = self.chance.choice("pq")
        path = f"{tenant}/{name}/s"
        if self.chance.random() < 0.15:
            try:
                self.platform.catalog.delete(tenant, name)
            except HoldfastError:
                return
            self.inputs.pop(path, None)
            return
        others = sorted(self.inputs.keys() - {path})
        wanted = self.chance.sample(others, min(len(others), self.chance.randint(0, 2)))
        given_ = self.any_access()
        if not wanted or self.chance.random() < 0.3:
            stream = {**simple(x="number"), "access": given_}
            wanted = []
        elif self.has_queries and self.chance.random() < 0.3:
            kind = self.chance.choice("ab")
            query = {"match": {"kind": kind}, "channels": {"x": "number"}}
            stream = {**derived({}, {"x": "m.x"}), "access": given_}
            stream["inputs"] = {"m": {"query": query}}
        else:
            inputs = {f"i{n}": {"stream": each, "optional": True} for n, each in enumerate(wanted)}
            terms = " + ".join(f"(i{n}._present ? i{n}.x : 0.0)" for n in range(len(wanted)))
            stream = {
                "channels": {"x": {"type": "number", "expression": terms}},
                "inputs": inputs,
                "access": given_,
            }
        if self.has_queries:
            stream["description"] = {"kind": self.chance.choice("ab")}
        try:
            self.platform.put(tenant, name, streams={"s": stream})
        except HoldfastError:
            return
        self.inputs[path] = set(wanted)
        self.access[path] = Access(given_["allow"], given_["deny"])

    def publish(self) -> None:
        for path in sorted(path for path, some in self.inputs.items() if not some):
            self.at += 1
            self.platform.publish(path, self.at, x=float(self.at))

    def settle(self) -> None:
        self.platform.settle()
        new = []
        for path in self.inputs:
            for update in self.platform.updates(path):
                key = (path, update["offset"])
                # A stream that was removed and written again may begin with offset 0 anew.
                if self.updates.get(key) != update:
                    self.updates[key] = update
                    self.needs.pop(key, None)
                    new.append(key)
        for key in sorted(new, key=lambda key: self.updates[key]["position"]):
            owner = key[0].partition("/")[0]
            for path in self.lineage(key):
                mine = path.partition("/")[0] == owner
                assert mine or self.access[path].admits(owner), (key, path)

    def lineage(self, key: tuple[str, int]) -> frozenset[str]:
        """The streams whose owners have a say about an update."""
        if key not in self.needs:
            owner = key[0].partition("/")[0]
            behind = [self.lineage((s, n)) for s, n in self.updates[key].get("inputs", {}).values()]
            passed = {p for some in behind for p in some if p.partition("/")[0] != owner}
            self.needs[key] = frozenset({key[0], *passed})
        return self.needs[key]

    def check_reads(self) -> int:
        read = 0
        for path in self.inputs:
            for tenant in TENANTS:
                try:
                    found = self.reading.updates(tenant, path, Wanted(limit=1000))
                except HoldfastError:
                    continue
                read += len(found)
                for update in found:
                    for each in self.lineage((path, update["offset"])):
                        mine = each.partition("/")[0] == tenant
                        assert mine or self.access[each].admits(tenant), (tenant, path, each)
        return read


@pytest.mark.parametrize("seed", range(9))
def test_no_update_is_read_or_used_whose_owners_deny_it(tmp_path: Path, seed: int) -> None:
    """Documents come, change and go at random; after each change all is read by everybody."""
    world = World(tmp_path / "store.db", seed, has_queries=seed >= 6)
    read = 0
    for _ in range(60):
        world.change()
        # What was stored before the engine has seen the change is denied at once.
        read += world.check_reads()
        world.publish()
        world.settle()
        read += world.check_reads()
    assert read > 500
    replayed = replay(world.platform, tmp_path / "replayed.db")
    assert replayed.contents()[:2] == world.platform.contents()[:2]
    replayed.database.close()
    world.platform.database.close()


def test_rules_are_remembered_until_something_behind_them_changes(tmp_path: Path) -> None:
    platform = Platform(tmp_path / "store.db")
    reading = Reading(platform.database)
    platform.put("ann", "o", streams={"a": {**simple(x="number"), "access": ALL}})
    before = "ann/o/a"
    for tenant in ("ben", "cid", "dan"):
        platform.put(tenant, "o", streams={"a": derived({"p": before}, {"x": "p.x"}, **SHARED)})
        before = f"{tenant}/o/a"
    for allowed in (True, False, True):
        given_ = ALL if allowed else BUT_EVE
        platform.put("ann", "o", streams={"a": {**simple(x="number"), "access": given_}})
        for _ in range(2):
            if allowed:
                reading.stream("eve", "dan/o/a")
            else:
                with pytest.raises(ForbiddenError, match="data of ann"):
                    reading.stream("eve", "dan/o/a")
    platform.database.close()


def asking_for_air(site: Site) -> None:
    tags = {"match": {"kind": "air"}, "channels": {"x": "number"}}
    asking = {**derived({}, {"x": "m.x"}), "inputs": {"m": {"query": tags}}}
    put(client(site, "eve"), "q", c=asking, d=derived({"p": "c"}, {"x": "p.x"}))


def values_of(client: TestClient, path: str) -> list[float]:
    answer = client.get(f"/v1/streams/{path}/updates")
    assert answer.status_code == 200, answer.text
    return [update["values"]["x"] for update in answer.json()]


@pytest.mark.parametrize("asks_first", [True, False])
def test_a_query_is_not_locked_by_what_its_owner_was_never_let_read(
    site: Site, asks_first: bool
) -> None:
    if asks_first:
        asking_for_air(site)
    put(site.add("dan"), "o", s={**simple(x="number"), "description": {"kind": "air"}, **SHARED})
    ann, _, eve = three(site)
    if not asks_first:
        asking_for_air(site)
    bring(site, ann, 1)
    publish(site.clients["dan"], "dan/o/s", {"timestamp": 2, "channels": {"x": 7}})
    site.settle()
    assert values_of(eve, "eve/q/c") == values_of(eve, "eve/q/d") == [7.0]
    # Once it may, it has it.
    access(ann, ALL)
    bring(site, ann, 3)
    assert values_of(eve, "eve/q/d") == [7.0, 3.0]
    access(ann, BUT_EVE)
    assert eve.get("/v1/streams/eve/q/d/updates").status_code == 403
    access(ann, ALL)
    bring(site, ann, 4)
    assert values_of(eve, "eve/q/d") == [7.0, 3.0, 4.0]
