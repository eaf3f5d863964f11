from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.approximate.adverse import SERIES, make
from benchmarks.runner import main


@pytest.mark.parametrize("name", SERIES)
def test_a_series_is_the_same_every_time(name: str) -> None:
    values = make(name, 500)
    assert len(values) == 500
    assert values == make(name, 500)


def test_adverse_series_break_no_guarantee(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    assert main(["approximate-adverse"], results=tmp_path) == 0
    report = json.loads((tmp_path / "approximate-adverse.json").read_text())
    assert len(report["tables"]) == 6
    assert [claim["figure"] for claim in report["claims"]] == [0]
