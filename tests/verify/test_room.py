"""Room on disks: what is counted and what is removed."""

from __future__ import annotations

from pathlib import Path

from holdfast.verify.room import clear, room_taken


def test_what_lies_in_folders_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert room_taken([tmp_path / "a", tmp_path / "none"]) == (0, 0)
    (tmp_path / "a" / "x").write_bytes(bytes(100_000))
    (tmp_path / "a" / "b" / "y").write_bytes(bytes(100_000))
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    (tmp_path / "a" / "link").symlink_to(tmp_path / "large")
    (tmp_path / "a" / "circle").symlink_to(tmp_path / "a")
    with (tmp_path / "a" / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    size, count = room_taken([tmp_path / "a"])
    assert count == 5
    assert 200_000 <= size < 1 << 20


def test_what_is_not_kept_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    paths = [tmp_path / "a" / name for name in ("x", "b/y", "b/z")]
    for path in paths:
        path.touch()
    (tmp_path / "a" / "b" / "link").symlink_to(tmp_path)
    clear(tmp_path / "a", {paths[1]})
    assert [path.exists() for path in paths] == [False, True, False]
    assert not (tmp_path / "a" / "b" / "link").is_symlink()
