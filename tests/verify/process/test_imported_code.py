"""Files of code that a job imports: which they are, and that they stay as they were."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from holdfast.verify import Job
from holdfast.verify.process.computing import Check, Maker, SparkComputer, define_job
from holdfast.verify.process.config import Config, Pool
from holdfast.verify.process.pinned_files import CODE, ChangedFileError, imported_files
from holdfast.verify.process.replica import Trace
from holdfast.verify.process.replica_process import run_replica
from holdfast.verify.process.resuming import check_pins
from holdfast.verify.process.submission import Submission, submit

FILES = {
    "tariffs.py": "from rates.steps import STEPS\nPRICE = 4\n",
    "rates/__init__.py": "from . import days\nimport numpy.random\n",
    "rates/days.py": "from ..nowhere import x\nfrom .hours import *\nimport absent\n",
    "rates/hours.py": "import rates\nimport json",
    "rates/steps.py": "STEPS = 3\nimport broken\n",
    "rates/unused.py": "",
    "plain/inner.py": "",
    "broken.py": "if",
    "unused.py": "",
}
PROGRAM = """
from pyspark.sql import SparkSession, functions
from holdfast.verify import verified

def late():
    import plain.inner
    from tariffs import PRICE

spark = SparkSession.builder.getOrCreate()
verified(spark.range(3), "most")
"""
POOLS = tuple(Pool(name=f"p{number}", hosts=(f"h{number}",)) for number in range(1, 5))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "nightly.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    importlib.invalidate_caches()
    return tmp_path


def submitted(folder: Path) -> Submission:
    folders = {"storage": str(folder / "storage"), "work": str(folder / "work")}
    return submit(folder / "nightly.py", Config(pools=POOLS).override(folders))


def test_what_is_imported_is_found_and_what_is_installed_is_left_out(folder: Path) -> None:
    found = imported_files(folder / "nightly.py", PROGRAM.encode())
    named = [str(Path(each).relative_to(folder / "lib")) for each in found]
    assert named == [
        "broken.py",
        "plain/inner.py",
        "rates/__init__.py",
        "rates/days.py",
        "rates/hours.py",
        "rates/steps.py",
        "tariffs.py",
    ]
    assert imported_files(folder / "views.sql", b"SELECT 1") == ()


def test_imported_code_is_part_of_what_is_agreed(folder: Path) -> None:
    first = submitted(folder)
    (folder / "lib" / "tariffs.py").write_text(FILES["tariffs.py"].replace("4", "5"))
    second = submitted(folder)
    assert first.sources[CODE] != second.sources[CODE]
    assert first.plan.pins != second.plan.pins
    with pytest.raises(ValueError, match=r"tariffs\.py has changed"):
        check_pins("nightly", first.pins, second.pins)


class Computer:
    """Notes the checks of stages."""

    spark = None

    def __init__(self) -> None:
        self.checks: dict[str, Check | None] = {}

    def define(self, stage: str, make: Maker, check: Check | None = None) -> None:
        self.checks[stage] = check


def test_imported_code_is_looked_at_with_each_stage(folder: Path) -> None:
    job = Job("nightly")

    @job.stage
    def most() -> None: ...

    files = {CODE: submitted(folder).sources[CODE]}
    computer = Computer()
    define_job(cast(SparkComputer, computer), job, files)
    check = computer.checks["most"]
    assert check is not None
    check()
    (folder / "lib" / "tariffs.py").write_text(FILES["tariffs.py"].replace("4", "5"))
    with pytest.raises(ChangedFileError, match=r"of imported code: .*tariffs\.py has the digest"):
        check()


def test_a_replica_does_not_run_what_imports_changed_code(folder: Path) -> None:
    orders = submitted(folder).orders(1, POOLS[0])
    marker = folder / "was-run"
    code = f"""
import tariffs
from holdfast.verify import Job
open({str(marker)!r}, "w").close()
job = Job("nightly")
"""
    path = folder / "lib" / "tariffs.py"
    path.write_text(FILES["tariffs.py"].replace("4", "5"))
    with pytest.raises(ChangedFileError, match=r"of imported code: .*tariffs\.py has the digest"):
        run_replica(replace(orders, code=code.encode()), Trace(folder / "trace"))
    assert not marker.exists()
