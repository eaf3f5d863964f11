from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.federation.scale import SMOKE, chosen_scale
from benchmarks.runner import main


def test_the_part_writes_tables_and_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    assert chosen_scale() == SMOKE
    # What holds for 995 participants need not hold for so few.
    assert main(["federation"], results=tmp_path) in (0, 1)
    written = json.loads((tmp_path / "federation.json").read_text())
    titles = [each["title"] for each in written["tables"]]
    assert len(titles) == 5
    ways = next(each for each in written["tables"] if each["title"].startswith("Ways"))
    left = {row[0]: row[2] for row in ways["rows"] if row[1] == 50}
    assert left["central optimum"] == left["global auction"] == 0
    assert left["no contracts"] > left["5 contracts, uniform fixed"]
    assert len(written["claims"]) == 13
