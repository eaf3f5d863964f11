from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.approximate.streams import series
from benchmarks.runner import main


@pytest.mark.parametrize("data", ["absent", "present"])
def test_the_part_runs_at_a_small_scale(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if data == "present":
        rows = "\n".join(str(20 + at % 13) for at in range(2_000))
        (tmp_path / "speed_7578.csv").write_text(f"value\n{rows}\n")
    series.cache_clear()
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    # Whether claims hold says nothing at this scale.
    assert main(["approximate"], results=tmp_path) in (0, 1)
    report = json.loads((tmp_path / "approximate.json").read_text())
    claims = {claim["name"]: claim for claim in report["claims"]}
    assert claims["answers beyond max_error"]["figure"] == 0
    assert claims["exact answers of a window with constant hops"]["figure"] == 100
    titles = [table["title"] for table in report["tables"]]
    starts = ("mean of the last 1,296", "maximum", "mean of a window", "mean over", "max over")
    for start in starts:
        assert any(title.startswith(start) for title in titles), start
    assert any(title.startswith("road speed, 2,000 rows") for title in titles) == (
        data == "present"
    )
    assert ("no sensor series" in capsys.readouterr().out) == (data == "absent")
