from __future__ import annotations

import io
import json
import platform
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks.report import Claim, Report


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def report(screen: io.StringIO) -> Report:
    return Report("windows", Console(file=screen, width=200))


@pytest.mark.parametrize(
    ("figure", "at_least", "holds"),
    [
        (25.0, True, True),
        (24.9, True, False),
        (25.0, False, True),
        (25.1, False, False),
        (float("nan"), True, False),
        (float("nan"), False, False),
    ],
)
def test_a_claim_holds_up_to_and_including_its_bound(
    figure: float, at_least: bool, holds: bool
) -> None:
    claim = Claim("speed", figure, 25.0, "Two-Stacks", at_least, spread=None, unit="x")
    assert claim.holds is holds
    assert str(claim).startswith("HOLDS" if holds else "FAILS")


def test_a_claim_is_one_line_that_says_everything(report: Report, screen: io.StringIO) -> None:
    report.claim("numba AMTA", 31.24, 25, "Two-Stacks", spread=(28.0, 35.5), unit=" times")
    report.claim("combines per slide", 4.2, 4.1, "the digest", at_least=False)
    report.print_claims()
    assert screen.getvalue().splitlines() == [
        "HOLDS  numba AMTA: 31.24 times (28 to 35.5), bound >= 25 times, against Two-Stacks",
        "FAILS  combines per slide: 4.2, bound <= 4.1, against the digest",
    ]
    assert not report.holds


def test_a_table_is_printed_at_once_and_kept_unrounded(
    report: Report, screen: io.StringIO, tmp_path: Path
) -> None:
    report.table("Rates", ["algorithm", "per second"], [["AMTA", np.float64(1234567.891)]])
    assert "Rates" in screen.getvalue()
    assert "1,234,568" in screen.getvalue()
    written = json.loads(report.write(tmp_path).read_text())
    assert written["tables"] == [
        {
            "title": "Rates",
            "columns": ["algorithm", "per second"],
            "rows": [["AMTA", 1234567.891]],
        }
    ]


def test_a_row_of_the_wrong_length_is_refused(report: Report) -> None:
    with pytest.raises(ValueError, match="table 'Rates': 2 columns"):
        report.table("Rates", ["algorithm", "per second"], [["AMTA"]])


def test_the_file_says_what_was_measured_where_and_when(report: Report, tmp_path: Path) -> None:
    report.claim("speed", np.float64(2.0), np.int64(1), "peer", spread=(1.5, float("inf")))
    path = report.write(tmp_path / "results")
    written = json.loads(path.read_text())
    assert path.name == "windows.json"
    assert written["part"] == "windows"
    assert written["holds"] is True
    assert written["claims"] == [
        {
            "name": "speed",
            "figure": 2.0,
            "bound": 1,
            "peer": "peer",
            "at_least": True,
            "spread": [1.5, None],
            "unit": "",
            "holds": True,
        }
    ]
    assert written["date"].endswith("+00:00")
    assert written["machine"]["cores"] >= 1
    assert written["machine"]["python"] == f"CPython {platform.python_version()}"
    assert {"holdfast", "pyspark", "numpy", "numba"} <= set(written["packages"])
    assert written["revision"]


def test_the_file_gives_away_neither_host_nor_paths(report: Report, tmp_path: Path) -> None:
    written = report.write(tmp_path).read_text()
    assert platform.node() not in written
    assert str(Path.cwd()) not in written
    assert str(Path.home()) not in written
