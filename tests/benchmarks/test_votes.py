"""The part `votes`, so small that a test can run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.parts.votes import POLICIES
from benchmarks.runner import main
from benchmarks.votes.reading import read, record
from benchmarks.votes.waiting import CASES, wait


def test_every_policy_reads_all_rows() -> None:
    stream = record(40, 10)
    assert {policy: read(stream, policy) for policy in ("switch", *POLICIES)} == dict.fromkeys(
        ("switch", *POLICIES), 400
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", CASES)
def test_what_comes_through(policy: str, fault: str) -> None:
    waited = wait(policy, CASES[fault], 300)
    assert len(waited.delays) + waited.skipped == 300
    assert min(waited.delays) > 0
    if policy in ("vote", "first", "sample"):
        assert waited.skipped == 0
    if policy in ("vote", "vote-latest") or fault != "one lies":
        assert waited.wrong == 0


def test_the_part_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    assert main(["votes"], results=tmp_path) in (0, 1)
    found = json.loads((tmp_path / "votes.json").read_text())
    assert [len(table["rows"]) for table in found["tables"]] == [6, 20]
