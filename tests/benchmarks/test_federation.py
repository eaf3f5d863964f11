from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.federation.scale import SMOKE, chosen_scale
from benchmarks.runner import main


def written(part: str, results: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    assert chosen_scale() == SMOKE
    # What holds for 995 participants need not hold for so few.
    assert main([part], results=results) in (0, 1)
    found: dict[str, Any] = json.loads((results / f"{part}.json").read_text())
    return found


def test_the_part_writes_tables_and_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = written("federation", tmp_path, monkeypatch)
    tables = {each["title"]: each for each in found["tables"]}
    assert len(tables) == 10
    ways = next(each for title, each in tables.items() if title.startswith("Ways"))
    left = {row[0]: row[2] for row in ways["rows"] if row[1] == 50}
    assert left["central optimum"] == left["global auction"] == 0
    assert left["no contracts"] > left["5 contracts, uniform fixed"]


def test_every_published_figure_is_a_claim_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = written("federation", tmp_path, monkeypatch)
    beside = next(t for t in found["tables"] if t["title"] == "Beside the published figures")
    claims = {each["name"]: each for each in found["claims"]}
    assert {row[0] for row in beside["rows"]} >= {f"figure 7-{number}" for number in range(1, 7)}
    for _, name, _, published, holds in beside["rows"]:
        assert claims[name]["peer"].endswith(published)
        assert claims[name]["holds"] is (holds == "yes")


def test_without_moves_the_part_on_spark_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert written("federation-moving", tmp_path, monkeypatch)["claims"] == []
