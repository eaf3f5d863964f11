"""Room on disks: what is counted and what is removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.verify.process.quota import MOST_FILES, clear, room_taken


def test_what_lies_in_folders_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert room_taken([tmp_path / "a", tmp_path / "none"])[1] == 1
    (tmp_path / "a" / "x").write_bytes(bytes(100_000))
    (tmp_path / "a" / "b" / "y").write_bytes(bytes(100_000))
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    (tmp_path / "a" / "link").symlink_to(tmp_path / "large")
    (tmp_path / "a" / "circle").symlink_to(tmp_path / "a")
    with (tmp_path / "a" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    size, count = room_taken([tmp_path / "a"])
    assert count == 6
    assert 200_000 <= size < 1 << 20


def test_what_is_not_kept_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    paths = [tmp_path / "a" / name for name in ("x", "b/y", "b/z")]
    for path in paths:
        path.touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / "a" / "b" / "link").symlink_to(outside)
    (tmp_path / "a" / "linked").symlink_to(outside)
    clear(tmp_path / "a", {paths[1]})
    assert [path.exists() for path in paths] == [False, True, False]
    assert not (tmp_path / "a" / "b" / "link").is_symlink()
    assert (outside / "file").exists()
    (tmp_path / "top").symlink_to(outside)
    clear(tmp_path / "top", set())
    assert (outside / "file").exists()


def test_folders_take_room_too(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / "a" / f"{number}" / "x").mkdir(parents=True)
    assert room_taken([tmp_path / "a"])[1] == 400
    clear(tmp_path / "a", set())
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize(("depth", "length"), [(20, 250), (300, 1)])
def test_deep_folders_hide_nothing(tmp_path: Path, depth: int, length: int) -> None:
    """What makes such a path does so step by step, from within."""
    inner = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("x" * length, dir_fd=inner)
        deeper = os.open("x" * length, os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner = deeper
    file = os.open("large", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=inner)
    os.write(file, bytes(1 << 20))
    os.close(file)
    os.close(inner)
    size, count = room_taken([tmp_path])
    assert size >= 1 << 20 or count > MOST_FILES
    clear(tmp_path, set())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_exchanged_for_a_link_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the removal, by a process that was left of the replica."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    for each in (own / "inner", outside):
        each.mkdir(parents=True)
        (each / "file").touch()

    def exchanging(opened: Callable[..., Any]) -> Callable[..., Any]:
        def open_(path: Any, *arguments: Any, **more: Any) -> Any:
            if str(path).endswith("inner") and not (own / "inner").is_symlink():
                (own / "inner").rename(tmp_path / "moved")
                (own / "inner").symlink_to(outside)
            return opened(path, *arguments, **more)

        return open_

    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, exchanging(getattr(os, name)))
    clear(own, set())
    assert (outside / "file").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is kept from root")
def test_what_its_owner_may_not_read_is_counted_and_removed(tmp_path: Path) -> None:
    hidden = tmp_path / "a" / "hidden"
    hidden.mkdir(parents=True)
    (hidden / "large").write_bytes(bytes(1 << 20))
    hidden.chmod(0)
    assert room_taken([tmp_path / "a"])[0] >= 1 << 20
    clear(tmp_path / "a", set())
    assert list((tmp_path / "a").iterdir()) == []
