from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.parts import REPOSITORY

RUN = """
import sys
from pathlib import Path
from benchmarks.runner import main
sys.exit(main(["spark-windows"], results=Path(sys.argv[1])))
"""


@pytest.mark.timeout(600)
def test_the_part_runs_at_a_small_scale(tmp_path: Path) -> None:
    # In a process of its own: its Spark session has another heap than that of the tests.
    ended = subprocess.run(
        [sys.executable, "-c", RUN, tmp_path],
        cwd=REPOSITORY,
        env=os.environ | {"HOLDFAST_BENCH": "smoke"},
        capture_output=True,
        text=True,
    )
    # Whether claims hold says nothing at this scale.
    assert ended.returncode in (0, 1), ended.stderr[-2000:]
    report = json.loads((tmp_path / "spark-windows.json").read_text())
    assert [claim["name"] for claim in report["claims"]] == [
        "slowest size over fastest, slide 1 s, 20 keys",
        "1 min / 1 min, 20 keys",
    ]
    native = next(each for each in report["tables"] if each["title"].startswith("Spark's own"))
    assert [row[:2] for row in native["rows"]] == [
        ["1 min / 1 min", engine] for engine in ("Spark default", "Spark RocksDB", "Holdfast")
    ]
    states = next(each for each in report["tables"] if each["title"].startswith("their state"))
    assert all(rows > 0 and size > 0 for *_, rows, size in states["rows"])
