"""Workers import pyspark as it is installed, where that is what Spark has."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from holdfast.spark.python import without_archive, worker_python


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


@pytest.mark.parametrize("is_same", [True, False])
def test_what_spark_starts_is_this_python(tmp_path: Path, is_same: bool) -> None:
    """With all arguments, and with the archive only where another version is installed."""
    version = Path(pyspark.__file__).with_name("version.py").read_text()
    archive = pack(tmp_path / "spark", version if is_same else "0")
    told = subprocess.run(
        [worker_python(), "-c", "import sys; print(sys.executable, *sys.argv, sys.path)", "a b"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([archive, str(tmp_path)])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.startswith(f"{sys.executable} -c a b [")
    assert str(tmp_path) in told
    assert (archive in told) is not is_same


def test_without_the_command_it_is_this_python_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(worker_python()).name == "holdfast-python"
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    assert worker_python() == sys.executable
