"""What every store promises a window, checked on the ones there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.disk import DiskStore
from holdfast.windows.stores.store import (
    Key,
    KeyRange,
    MemoryStore,
    epoch_range,
    level_range,
    root_key,
)

AnyStore = MemoryStore | DiskStore


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        with DiskStore(tmp_path / "store") as disk:
            yield disk


def test_records_come_back_in_the_order_asked(store: AnyStore) -> None:
    keys = [Key("w", 0, 1, position) for position in range(5)]
    store.write({key: bytes([key.position]) for key in keys[:4]}, [])
    assert store.read(keys[::-1]) == [None, b"\3", b"\2", b"\1", b"\0"]
    assert store.read([]) == []
    store.write({keys[0]: b"new"}, [])
    assert store.read(keys[:1]) == [b"new"]


def test_deletes_come_before_puts_and_are_counted(store: AnyStore) -> None:
    keys = [Key("w", 0, 0, position) for position in range(10)]
    store.write(dict.fromkeys(keys, b"old"), [])
    assert store.write({keys[3]: b"new"}, [level_range("w", 0, 0, 2, 6)]) == 4
    assert store.read(keys) == [b"old"] * 2 + [None, b"new", None, None] + [b"old"] * 4
    assert store.write({}, [level_range("w", 0, 0, 2, 6), level_range("w", 0, 0, 50, 60)]) == 1


def test_ranges_keep_to_their_window_epoch_and_level(store: AnyStore) -> None:
    keys = [
        Key(window, epoch, level, position)
        for window in ("", "a", "aa", "a\0", "b", "ü" * 300)
        for epoch in (-1, 0, 1, 255, 256)
        for level in (0, 1, 63)
        for position in (0, 255, 256, 2**40)
    ]
    store.write(dict.fromkeys(keys, b"x"), [])
    assert store.count() == len(keys)
    assert store.write({}, [level_range("a", 255, 1, 1, 2**30)]) == 2
    assert store.write({}, [epoch_range("a", 255)]) == 10
    assert store.write({}, [epoch_range("a")]) == 12
    gone = {key for key in keys if key.window == "a" and key.epoch in (255, -1)}
    assert store.read(keys) == [None if key in gone else b"x" for key in keys]


def test_epochs_are_listed_without_the_root(store: AnyStore) -> None:
    puts = {Key(window, epoch, 2, 7): b"x" for window in ("a", "b" * 999) for epoch in (3, 300)}
    store.write(puts | {root_key("a"): b"root", Key("a", 3, 3, 8): b"x"}, [])
    assert store.epochs("a") == [3, 300]
    assert store.epochs("b" * 999) == [3, 300]
    assert store.epochs("") == store.epochs("b") == []
    store.write({}, [epoch_range("a", 3)])
    assert store.epochs("a") == [300]
    assert store.read([root_key("a")]) == [b"root"]


keys = st.builds(
    Key,
    st.sampled_from(["", "a", "b"]),
    st.integers(-1, 2),
    st.integers(0, 2),
    st.integers(0, 6),
)
batches = st.tuples(
    st.dictionaries(keys, st.binary(max_size=3), max_size=8),
    st.lists(st.builds(KeyRange, keys, keys), max_size=3),
)


@pytest.mark.parametrize("make", [lambda _: nullcontext(MemoryStore()), DiskStore])
@settings(max_examples=30)
@given(written=st.lists(batches, max_size=6))
def test_a_store_is_an_ordered_dictionary(make: Callable[[str], Any], written: list[Any]) -> None:
    expected: dict[Key, bytes] = {}
    with TemporaryDirectory() as folder, make(folder) as store:
        for puts, deletes in written:
            gone = {key for key in expected for first, stop in deletes if first <= key < stop}
            assert store.write(puts, deletes) == len(gone)
            expected = {key: expected[key] for key in expected.keys() - gone} | puts
            everything = sorted(expected)
            assert store.read(everything) == [expected[key] for key in everything]
            assert store.count() == len(expected)
            for window in ("", "a", "b"):
                epochs = {key.epoch for key in expected if key.window == window}
                assert store.epochs(window) == sorted(epochs - {-1})
