"""The store on disk: one owner, room to grow, and batches that are there or not."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.disk import FIRST_MAP_SIZE, DiskStore
from holdfast.errors import StoreCorruptError, StoreError
from holdfast.windows import monoids as m
from holdfast.windows.policies import last
from holdfast.windows.stores.store import Key, level_range
from holdfast.windows.stores.stored import open_window

KEY = Key("w", 0, 0, 0)


def run(script: str, *arguments: object) -> str:
    """What a Python process of its own prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_records_outlive_the_process(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "as needed"
    script = """if True:
        import os, sys
        from holdfast.disk import DiskStore
        from holdfast.windows.stores.store import Key
        DiskStore(sys.argv[1]).write({Key("w", 0, 0, 0): b"durable"}, [])
        os._exit(0)
    """
    run(script, folder)
    with DiskStore(folder) as store:
        assert store.read([KEY]) == [b"durable"]


def test_a_second_opener_is_refused(tmp_path: Path) -> None:
    script = """if True:
        import sys
        from holdfast.disk import DiskStore
        from holdfast.errors import StoreError
        try:
            DiskStore(sys.argv[1])
        except StoreError as error:
            print(error)
    """
    with DiskStore(tmp_path):
        assert "open already, here or in another process; close that one" in run(script, tmp_path)
        with pytest.raises(StoreError, match="open already"):
            DiskStore(tmp_path)
    assert run(script, tmp_path) == ""
    DiskStore(tmp_path).close()


def test_the_map_grows_with_the_data_under_the_feet_of_readers(tmp_path: Path) -> None:
    value = os.urandom(1 << 20)
    count = 2 * FIRST_MAP_SIZE // len(value)
    with DiskStore(tmp_path) as store, ThreadPoolExecutor(2) as readers:
        store.write({KEY: value}, [])
        reads = []
        for position in range(1, count + 1, 8):
            reads += [readers.submit(store.read, [KEY] * 4) for _ in range(4)]
            store.write({KEY._replace(position=position + n): value for n in range(8)}, [])
        assert all(read.result() == [value] * 4 for read in reads)
    with DiskStore(tmp_path) as store:
        assert store.count() == count + 1
        assert store.read([KEY._replace(position=count)]) == [value]


def test_space_of_deleted_records_is_used_again(tmp_path: Path) -> None:
    with DiskStore(tmp_path) as store:
        sizes = []
        for batch in range(40):
            puts = {KEY._replace(position=100 * batch + n): bytes(1000) for n in range(100)}
            store.write(puts, [level_range("w", 0, 0, 0, max(0, 100 * (batch - 1)))])
            sizes.append((tmp_path / "data.mdb").stat().st_size)
        assert store.count() == 200
    assert sizes[-1] == sizes[10]


def test_a_full_disk_is_an_outage_that_ends_when_there_is_room(tmp_path: Path) -> None:
    script = """if True:
        import resource, sys
        from holdfast.disk import DiskStore
        from holdfast.errors import StoreUnavailableError
        from holdfast.windows.stores.store import Key
        store = DiskStore(sys.argv[1])
        store.write({Key("w", 0, 0, 0): b"before"}, [])
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        batch = {Key("w", 0, 0, n): bytes(3000) for n in range(1, 200)}
        for _ in range(3):
            try:
                store.write(batch, [])
            except StoreUnavailableError:
                assert store.count() == 1 and store.read([Key("w", 0, 0, 0)]) == [b"before"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        store.write(batch, [])
        sys.stdout.write(str(store.count()))
    """
    assert run(script, tmp_path) == "200"


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.close()
    store.close()
    for use in (
        lambda: store.read([KEY]),
        lambda: store.write({KEY: b""}, []),
        lambda: store.epochs("w"),
        store.count,
    ):
        with pytest.raises(StoreError, match="the store is closed; open a new DiskStore"):
            use()


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="give DiskStore a folder"):
            DiskStore(path)


def test_a_damaged_file_is_reported_and_the_folder_let_go(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"not a database" * 1000)
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match="restore the folder"):
            DiskStore(tmp_path)


def test_a_window_lives_on_in_its_folder(tmp_path: Path) -> None:
    results = []
    for stop in (1000, 2000):
        with DiskStore(tmp_path) as store, ThreadPoolExecutor(1) as executor:
            window = open_window(m.sum, store, "w", buffer=32, cache=32, executor=executor)
            results += window.roll(range(window.position, stop), last(100))
            window.checkpoint()
    assert results == [sum(range(max(0, n - 99), n + 1)) for n in range(2000)]
