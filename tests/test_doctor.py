from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.doctor import (
    Finding,
    examine_java,
    examine_machine,
    examine_packages,
    examine_python,
    is_healthy,
    print_findings,
)


def fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


def test_this_machine_is_examined_by_name() -> None:
    names = {finding.name for finding in examine_machine()}
    assert {"Python", "Java", "pyspark", "pandas", "pyarrow", "numba"} <= names
    assert "pytest" not in names


def test_python() -> None:
    assert examine_python().fits
    assert not examine_python((3, 10, 4)).fits
    assert "3.11" in examine_python((3, 10, 4)).remedy


@pytest.mark.parametrize(
    ("version", "fits"), [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_392", False)]
)
def test_java_of_java_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: bool
) -> None:
    fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = examine_java()
    assert finding.fits is fits
    assert finding.found is not None
    assert version.startswith(finding.found)
    assert "JAVA_HOME" in finding.remedy


def test_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = examine_java()
    assert (missing.found, missing.fits) == (None, False)
    assert "openjdk-17-jre-headless" in missing.remedy
    monkeypatch.setenv("PATH", str(fake_java(tmp_path, "17.0.1").parent), prepend=":")
    assert examine_java().fits


def test_packages_missing_old_and_optional() -> None:
    requirements = [
        "numpy>=2",
        "pandas<3,>=2.2",
        "pyspark==4.3.*",
        'numba>=0.61; extra == "fast"',
        'pytest; extra == "dev"',
    ]
    installed = {"numpy": "2.4.6", "pandas": "3.1.1"}
    findings = {finding.name: finding for finding in examine_packages(requirements, installed.get)}
    assert findings["numpy"].fits
    assert not findings["pandas"].fits
    assert findings["pandas"].found == "3.1.1"
    assert findings["pyspark"].remedy == 'pip install "pyspark==4.3.*"'
    assert not findings["numba"].required
    assert "pytest" not in findings


def test_only_what_is_required_decides() -> None:
    optional = Finding("numba", None, ">=0.61", fits=False, remedy="pip install", required=False)
    required = Finding("pyspark", None, "==4.3.*", fits=False, remedy="pip install pyspark")
    assert is_healthy([optional])
    assert not is_healthy([optional, required])


def test_findings_are_printed_with_remedies() -> None:
    screen = io.StringIO()
    missing = Finding("pyspark", None, "==4.3.*", fits=False, remedy='pip install "pyspark[x]"')
    old = Finding("numba", "0.1", ">=0.61", fits=False, remedy="pip install", required=False)
    print_findings([missing, old], Console(file=screen, width=80))
    assert 'pyspark: pip install "pyspark[x]"' in screen.getvalue()
    assert "│ missing " in screen.getvalue()
    assert "│ wrong version, optional " in screen.getvalue()
    assert "has what Holdfast needs" not in screen.getvalue()
