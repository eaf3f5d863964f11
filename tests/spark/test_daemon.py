"""Workers import pyspark as it is installed, where that is what Spark has."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from holdfast.spark.daemon import serve, without_archive


def install(folder: Path, version: str) -> str:
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    (folder / "pyspark" / "version.py").write_text(version)
    return str(folder)


def pack(folder: Path, version: str | None) -> str:
    folder.mkdir()
    path = folder / "pyspark.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
        if version is not None:
            archive.writestr("pyspark/version.py", version)
    return str(path)


def test_what_is_installed_stands_for_the_same_archive(tmp_path: Path) -> None:
    archive, installed = pack(tmp_path / "spark", "4"), install(tmp_path / "site", "4")
    assert without_archive(["job", archive, installed]) == ["job", installed]


def test_another_version_does_not(tmp_path: Path) -> None:
    installed = install(tmp_path / "site", "4")
    for number, version in enumerate(("5", None)):
        path = [pack(tmp_path / f"spark {number}", version), installed]
        assert without_archive(path) == path


def test_the_archive_stays_where_nothing_is_installed_or_nothing_can_be_read(
    tmp_path: Path,
) -> None:
    path = [pack(tmp_path / "spark", "4"), str(tmp_path / "nowhere")]
    assert without_archive(path) == path
    broken = tmp_path / "pyspark.zip"
    broken.write_bytes(b"no archive")
    path = [str(broken), install(tmp_path / "site", "4")]
    assert without_archive(path) == path
    assert without_archive([path[1]]) == [path[1]]


def test_workers_have_what_is_preloaded_from_their_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast_preloaded.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    there = []
    monkeypatch.setattr("pyspark.daemon.manager", lambda: there.extend(sys.modules))
    serve(["holdfast_preloaded"])
    assert "holdfast_preloaded" in there
