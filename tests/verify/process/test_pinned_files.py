"""Files that must stay as they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.verify.process.pinned_files import (
    ChangedFileError,
    PinnedFiles,
    has_changed,
    pin_files,
)


def rewrite(path: Path, text: str) -> None:
    """In place, with the same size and time."""
    before = path.stat()
    assert len(text) == before.st_size
    with path.open("r+") as file:
        file.write(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def replace(path: Path, text: str) -> None:
    other = path.with_name("other")
    other.write_text(text)
    other.rename(path)


def later(path: Path) -> None:
    """Let the clock of the file system go on, so that what is written now has another time."""
    first = path.stat().st_ctime_ns
    probe = path.with_name("probe")
    while True:
        probe.write_text("")
        if probe.stat().st_ctime_ns > first:
            return


def test_files_that_stay_as_they_were_pass_every_check(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    files = pin_files(str(tmp_path / name) for name in "abc")
    pinned = PinnedFiles()
    pinned.check("s", files)
    pinned.check("s", files)
    assert not any(map(has_changed, files))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("5"), "has 1 bytes and had 2 when the job was submitted"),
        (lambda path: rewrite(path, "5\n"), "has the digest f0b5c2c2211c8d67 and had 7de1555df"),
        (lambda path: replace(path, "5\n"), "has the digest"),
        (lambda path: path.unlink(), "No such file or directory; it was there"),
    ],
)
@pytest.mark.parametrize("is_known", [False, True])
def test_a_file_that_has_changed_is_named(
    tmp_path: Path, change: Callable[[Path], object], message: str, is_known: bool
) -> None:
    path = tmp_path / "tariffs.csv"
    path.write_text("4\n")
    files = pin_files([str(path)])
    pinned = PinnedFiles()
    if is_known:
        pinned.check("tariffs", files)
    change(path)
    assert has_changed(files[0])
    with pytest.raises(ChangedFileError, match=rf"source tariffs: .*tariffs\.csv:? {message}"):
        pinned.check("tariffs", files)


@pytest.mark.parametrize("write", [rewrite, replace])
def test_a_file_that_was_changed_and_restored_between_two_checks_is_found(
    tmp_path: Path, write: Callable[[Path, str], None]
) -> None:
    path = tmp_path / "tariffs.csv"
    path.write_text("4\n")
    files = pin_files([str(path)])
    pinned = PinnedFiles()
    pinned.check("tariffs", files)
    later(path)
    write(path, "5\n")
    write(path, "4\n")
    with pytest.raises(ChangedFileError, match="was written to or replaced since it was read"):
        pinned.check("tariffs", files)
    PinnedFiles().check("tariffs", files)
