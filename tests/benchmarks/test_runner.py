from __future__ import annotations

import io
import json
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from benchmarks.runner import main

PART = """
def run(report):
    report.table("Table", ["a"], [[1]])
    report.claim("claimed", {figure}, 25, "peer")
"""


@pytest.fixture
def run(make_folder, tmp_path: Path):
    """Run the benchmarks over two made-up parts: exit code and what was printed."""
    folder: ModuleType = make_folder(keeps=PART.format(figure=26), breaks=PART.format(figure=24))

    def run(*arguments: str) -> tuple[int, str]:
        screen = io.StringIO()
        code = main(list(arguments), folder, tmp_path / "results", Console(file=screen, width=200))
        return code, screen.getvalue()

    return run


def test_a_part_whose_claims_hold_exits_with_0(run, tmp_path: Path) -> None:
    code, printed = run("keeps")
    assert code == 0
    assert printed.index("Table") < printed.index("HOLDS  claimed: 26, bound >= 25, against peer")
    assert json.loads((tmp_path / "results" / "keeps.json").read_text())["holds"] is True


def test_a_part_with_a_broken_claim_exits_with_1_and_is_still_written(run, tmp_path: Path) -> None:
    code, printed = run("breaks")
    assert code == 1
    assert "FAILS  claimed: 24" in printed
    assert json.loads((tmp_path / "results" / "breaks.json").read_text())["holds"] is False


def test_an_unknown_part_is_answered_with_those_there_are(run, capsys) -> None:
    code, _ = run("kept")
    assert code == 2
    error = capsys.readouterr().err
    assert "did you mean 'keeps'?" in error
    assert "there are: breaks, keeps" in error


def test_no_parts_at_all(make_folder, capsys) -> None:
    assert main([], make_folder()) == 2
    assert "nothing to run" in capsys.readouterr().err
