from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.shadow.trial import AGGREGATES, parse_method, read_column, try_out
from holdfast.windows.approximation import block_maxima, hops, max_error, max_leaves


@pytest.fixture
def series(tmp_path: Path) -> Path:
    path = tmp_path / "series.csv"
    rows = "\n".join(f"{at},{20 + at % 7}" for at in range(500))
    path.write_text(f"at, celsius\n{rows}\n")
    return path


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("max_error=0.1%", max_error("0.1%")),
        ("max_error=0.001", max_error(0.001)),
        (" max_leaves = 1_000 ", max_leaves(1_000)),
        ("block_maxima=1,000", block_maxima(1_000)),
        ("hops", hops()),
    ],
)
def test_methods_as_they_are_written(text: str, method: object) -> None:
    assert parse_method(text) == method


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("max_eror=1%", "'max_eror=1%' is no method; give max_error=0.1%, max_leaves=1000"),
        ("max_error", "is no method"),
        ("max_leaves=", "is no method"),
        ("hops=3", "is no method"),
        ("max_leaves=many", "needs a whole number"),
        ("max_leaves=2", "give at least 3"),
        ("max_error=120%", "above 0 and below 1"),
        ("max_error=much", "give a part such as 0.001"),
    ],
)
def test_methods_that_are_none(text: str, remedy: str) -> None:
    with pytest.raises(InvalidArgumentError, match=remedy):
        parse_method(text)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_every_aggregate_is_tried_on_every_row(series: Path, aggregate: str) -> None:
    report = try_out(series, "celsius", 50, ["max_leaves=100"], aggregate).report()
    assert (report.monoid, report.updates, report.exact) == (aggregate, 500, 500)
    assert (report.leaves, report.buckets) == (50, 50)


def test_methods_are_combined(series: Path) -> None:
    report = try_out(series, "celsius", 50, ["max_error=10%", "max_leaves=20"]).report()
    assert report.methods == "max_error(10%, confidence=0.95), max_leaves(20)"
    assert report.buckets_peak <= 20


def test_mistakes_name_the_file_and_the_remedy(series: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"has no column 'kelvin'.*at, celsius"):
        read_column(series, "kelvin")
    with pytest.raises(InvalidArgumentError, match=r"has 500 rows.*last 500 never slides"):
        try_out(series, "celsius", 500, ["hops"])
    with pytest.raises(InvalidArgumentError, match="there is no 'median'; take one of mean"):
        try_out(series, "celsius", 50, ["hops"], "median")


@pytest.mark.parametrize("cell", ["n/a", "", "nan"])
def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "series.csv"
    path.write_text(f"value\n1\n\n{cell},\n3\n")
    with pytest.raises(InvalidArgumentError, match=f"line 4: value is '{cell}', which is no"):
        read_column(path, "value")


def test_files_that_are_not_csv(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be read \\(No such file"):
        read_column(tmp_path / "absent.csv", "value")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"value\n\xff\xfe\n")
    with pytest.raises(HoldfastError, match="cannot be read as CSV"):
        read_column(binary, "value")
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(InvalidArgumentError, match="the file is empty"):
        read_column(empty, "value")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "series.csv"
    path.write_text("\ufeffvalue\n1\n2.5\n")
    assert read_column(path, "value") == [1.0, 2.5]
