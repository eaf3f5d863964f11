"""Many updates settled at once are what comes of them one after the other."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.tenants.machine.columns import SettledColumns, settle_columns
from holdfast.tenants.machine.pages import Page, cut, pages_of, unpacked
from holdfast.tenants.machine.settling import Limits, Part, World, settle
from holdfast.tenants.machine.updates import Update
from tests.tenants.machine.graphs import Described, Summing, graphs
from tests.tenants.machine.test_settling import composite


def paged(updates: list[Update]) -> list[Page] | None:
    """As the planner does it: none of a partition is in a page."""
    if any(update.key for update in updates):
        return None
    streams: dict[str, list[Update]] = defaultdict(list)
    for update in updates:
        streams[update.stream].append(update)
    return [page for some in streams.values() for page in pages_of(some)]


class Site:
    def __init__(self, described: list[Described], limits: Limits | None = None) -> None:
        self.part = Part(each.as_node() for each in described)
        self.calculations = {each.name: Summing(each) for each in described}
        self.world = World()
        self.limits = limits or Limits()
        self.position = 0
        self.offsets: dict[str, int] = defaultdict(int)

    def update(self, stream: str, timestamp: int, value: int, key: str = "") -> Update:
        self.position += 1
        offset = self.offsets[stream]
        self.offsets[stream] += 1
        owners = (stream.partition("/")[0],)
        return Update(stream, offset, timestamp, self.position, {"n": value}, key, {}, owners)

    def settle(self, updates: list[Update]) -> SettledColumns | None:
        """At once, compared with one after the other; that alone changes the world."""
        before = deepcopy(self.world)
        pages = paged(updates)
        found = None
        if pages is not None:
            found = settle_columns(pages, self.part, self.world, self.calculations, self.limits)
        assert self.world == before
        made: dict[str, list[Update]] = defaultdict(list)
        work: dict[str, int] = {}
        usual, runs = True, 0
        for update in updates:
            settled = settle(update, self.part, self.world, self.calculations, self.limits)
            made[update.stream].append(update)
            for each in settled.updates:
                made[each.stream].append(each)
            usual &= not (settled.late or settled.failures or settled.discarded or settled.lags)
            runs += settled.runs
            work[update.stream] = max(settled.work, work.get(update.stream, 0))
        if found is not None:
            assert usual
            assert (found.runs, found.work) == (runs, work)
            assert {
                column.stream: [each for page in column.pages() for each in unpacked(page)]
                for column in found.columns
            } == made
            assert all(column.last == made[column.stream][-1] for column in found.columns)
            assert {c.stream for c in found.columns if c.is_composite} == made.keys() - work.keys()
        return found


@given(st.data())
@settings(max_examples=150)
def test_as_one_after_the_other(data: st.DataObject) -> None:
    simple, described = data.draw(graphs())
    site = Site(described)
    clock = 100
    skew = data.draw(st.sampled_from([0, 0, 0, 3]))
    for _ in range(3):
        updates = []
        for stream in data.draw(st.lists(st.sampled_from(simple), min_size=1, max_size=30)):
            clock += data.draw(st.sampled_from([1, 1, 1, 2, 5]))
            late = skew if stream == simple[0] else 0
            updates.append(site.update(stream, clock - late, data.draw(st.integers(0, 99))))
        event("at once" if site.settle(updates) is not None else "one after the other")


@given(st.data())
@settings(max_examples=100)
def test_plain_graphs_without_cycles(data: st.DataObject) -> None:
    """Those that the other test rarely draws: diamonds of several sources, all inputs present."""
    simple = [f"{'ab'[n % 2]}/o/s{n}" for n in range(data.draw(st.integers(1, 3)))]
    described: list[Described] = []
    for n in range(data.draw(st.integers(1, 6))):
        sources = [*simple, *(each.name for each in described)]
        inputs = data.draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3))
        constant = data.draw(st.integers(0, 9))
        described.append(composite(f"{'ab'[n % 2]}/o/c{n}", *inputs, constant=constant))
    site = Site(described)
    clock, outcomes = 0, []
    for _ in range(3):
        updates = []
        for stream in [*simple, *data.draw(st.lists(st.sampled_from(simple), min_size=8))]:
            clock += 1
            updates.append(site.update(stream, clock, clock * 7 % 31))
        outcomes.append(site.settle(updates))
    # At first some input has no value when another one comes.
    assert None not in outcomes[1:]


def chain(length: int) -> list[Described]:
    return [composite(f"a/o/c{n}", f"a/o/c{n - 1}" if n else "a/o/s") for n in range(length)]


def burst(site: Site, count: int = 20, stream: str = "a/o/s") -> list[Update]:
    return [site.update(stream, site.position + 1, n) for n in range(count)]


def test_a_chain_is_settled_at_once() -> None:
    site = Site(chain(5))
    for _ in range(3):
        found = site.settle(burst(site))
        assert found is not None
        assert len(found.columns) == 6


def unusual_late(site: Site) -> list[Update]:
    return [*burst(site), site.update("a/o/s", 3, 1)]


def unusual_first(site: Site) -> list[Update]:
    return [site.update("a/o/s", 1, 1), *burst(site)]


def unusual_key(site: Site) -> list[Update]:
    return [*burst(site), site.update("a/o/s", site.position + 1, 1, "k")]


def unusual_few(site: Site) -> list[Update]:
    return burst(site, 3)


@pytest.mark.parametrize("unusual", [unusual_late, unusual_first, unusual_key, unusual_few])
def test_what_is_unusual_is_left_to_the_other_way(unusual: object) -> None:
    site = Site(chain(2))
    assert site.settle(burst(site)) is not None
    assert site.settle(unusual(site)) is None  # type: ignore[operator]


def test_a_clock_that_lags_is_left_to_the_other_way() -> None:
    """The last result is newer than what the slower source brings."""
    site = Site([composite("a/o/c0", "a/o/s", "a/o/t")])
    site.settle([site.update("a/o/s", 1, 1), site.update("a/o/t", 1000, 1)])
    assert site.settle([site.update("a/o/s", 2 + n, n) for n in range(20)]) is None


def test_a_lag_that_ends_is_left_to_the_other_way() -> None:
    site = Site([composite("a/o/c0", "a/o/s", "a/o/t")])
    site.settle([site.update("a/o/s", 1, 1), site.update("a/o/t", 10, 1)])
    site.settle([site.update("a/o/s", 2, 1)])
    assert site.world.lags
    assert site.settle([site.update("a/o/s", 20 + n, n) for n in range(20)]) is None
    assert not site.world.lags
    assert site.settle([site.update("a/o/s", 50 + n, n) for n in range(20)]) is not None


def test_owners_that_change_are_left_to_the_other_way() -> None:
    """A stored update was made of somebody's data whom the stream takes nothing from any more."""
    chained = [composite("a/o/c0", "a/o/s"), composite("a/o/c1", "a/o/c0", "a/o/t")]
    site = Site(chained)
    site.settle([site.update("a/o/s", 1, 1), site.update("a/o/t", 2, 1)])
    site.world.newest["a/o/c0"] = site.world.latest["a/o/c0"][""] = replace(
        site.world.newest["a/o/c0"], owners=("a", "z")
    )
    assert site.settle([site.update("a/o/t", 3, 1), *burst(site, 10, "a/o/s")]) is None


def test_a_stream_with_partitions_is_left_to_the_other_way() -> None:
    site = Site(chain(2))
    site.settle([site.update("a/o/s", 1, 1, "k")])
    assert site.settle(burst(site)) is None


def test_work_that_might_be_too_much_is_left_to_the_other_way() -> None:
    # Each result takes 11 steps.
    for limits in (Limits(work=21), Limits(work=21, work_of_others=1000)):
        site = Site(chain(2), limits)
        assert site.settle(burst(site)) is None
    mixed = Site([composite("a/o/c0", "a/o/s", "b/o/t")], Limits(work_of_others=10))
    mixed.settle([mixed.update("a/o/s", 1, 1), mixed.update("b/o/t", 2, 1)])
    alternating = [mixed.update(f"{'ab'[n % 2]}/o/{'st'[n % 2]}", 3 + n, n) for n in range(20)]
    assert mixed.settle(alternating) is None
    foreign = [composite("b/o/c0", "a/o/s"), composite("b/o/c1", "b/o/c0")]
    site = Site(foreign, Limits(work_of_others=21))
    assert site.settle(burst(site)) is None
    site = Site(foreign, Limits(work=21, work_of_others=22))
    assert site.settle(burst(site)) is not None


def test_an_expression_that_fails_is_left_to_the_other_way() -> None:
    site = Site([composite("a/o/c0", "a/o/s", fails=5)])
    assert site.settle(burst(site)) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2), st.booleans()), min_size=1),
    st.integers(-2, 120),
)
def test_pages_hold_what_was_put_into_them(steps: list[tuple[int, int, bool]], before: int) -> None:
    """Also with gaps, and where lineage or owners change."""
    offset = timestamp = 0
    updates = []
    for number, (gap, pause, shared) in enumerate(steps):
        offset, timestamp = offset + gap, timestamp + pause
        inputs = {"i": ("a/o/s" if shared else "b/o/s", number * gap)}
        owners = ("a", "b") if shared else ("a",)
        values = {"n": number / 7, "m": number}
        updates.append(Update("a/o/c", offset, timestamp, number, values, "", inputs, owners))
    pages: list[Page] = list(pages_of(updates))
    assert [each for page in pages for each in unpacked(page)] == updates
    rest = [left for page in pages if (left := cut(page, before)) is not None]
    found = [each for page in rest for each in unpacked(page)]
    assert found == [each for each in updates if each.offset >= before]
