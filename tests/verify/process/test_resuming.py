from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.config import Config
from holdfast.verify.process.pinned_files import pin_files
from holdfast.verify.process.resuming import Mark, check_pins, find_unfinished, pin
from holdfast.verify.process.sources import make_source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "job.py"
    file.write_text("job")
    (tmp_path / "rows.csv").write_text("a")
    return file


def pins(file: Path, config: Config | None = None) -> dict[str, str]:
    source = make_source("rows", "*.csv", None, None, {})
    files = {"rows": pin_files(source.find(file.parent))}
    return pin(file, file.read_bytes(), config or Config(), files)


def test_what_is_as_it_was_may_go_on(file: Path) -> None:
    check_pins("bill-1", pins(file), pins(file))


def test_all_changes_are_named(file: Path) -> None:
    before = pins(file)
    file.write_text("another job")
    (file.parent / "rows.csv").write_text("ab")
    (file.parent / "more.csv").write_text("a")
    with pytest.raises(InvalidArgumentError) as found:
        check_pins("bill-1", before, pins(file, Config(faults=2)))
    said = str(found.value)
    assert "setting faults has changed" in said
    assert f"the job's file {file} has changed" in said
    assert f"source rows: {file.parent / 'rows.csv'} has changed" in said
    assert f"source rows: {file.parent / 'more.csv'} is new" in said
    assert "--fresh" in said
    (file.parent / "rows.csv").unlink()
    with pytest.raises(InvalidArgumentError, match=r"rows\.csv is gone"):
        check_pins("bill-1", before, pins(file))


def test_settings_are_in_no_file_as_they_are(file: Path) -> None:
    """Those of Spark may have passwords."""
    assert "secret" not in str(pins(file, Config(spark={"spark.password": "secret"})))


def test_a_submission_is_found_by_its_file_and_its_output(file: Path, tmp_path: Path) -> None:
    work, output = tmp_path / "work", tmp_path / "out"
    for name in ("bill-1", "bill-2", "bill-3", "bill-4"):
        (work / name).mkdir(parents=True)
    Mark(work / "bill-1").set(file, output)
    Mark(work / "bill-2").set(file, output)
    Mark(work / "bill-3").set(file, tmp_path / "other")
    (work / "bill-4" / "unfinished").write_text("{")
    assert find_unfinished(work, file, output) == [work / "bill-2", work / "bill-1"]
    Mark(work / "bill-2").remove()
    assert find_unfinished(work, file, output) == [work / "bill-1"]
