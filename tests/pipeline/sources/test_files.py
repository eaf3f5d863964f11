"""Files as a source: each row once and in order, over restarts; broken files harm nobody."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.sources import files, open_source
from holdfast.pipeline.topology import Files, Topology
from tests.pipeline.sources.rig import Taker, alone, final_rows, party_of, running, wait_for

SCHEMA = {"n": "bigint", "s": "string"}


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"n": range(start, stop), "s": [f"row {n}" for n in range(start, stop)]})


def write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(exist_ok=True)
    match path.suffix:
        case ".parquet":
            pa.parquet.write_table(table, path, row_group_size=100)
        case ".csv":
            pa.csv.write_csv(table, path)
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def of_files(folder: Path, format_: str = "csv", path: str = "in", **settings: Any) -> Topology:
    own = {"schema": SCHEMA, "follow": False}
    names = ("schema", "follow", "pace")
    own |= {name: settings.pop(name) for name in names if name in settings}
    return alone(folder, Files(path=path, format=format_, **own), **settings)


def brought(topology: Topology, party: Taker) -> dict[str, int]:
    with running(topology, party) as driver:
        wait_for(driver.ended.is_set)
        assert driver.failure is None
        return driver.counts


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
def test_files_are_read_in_the_order_of_their_names(tmp_path: Path, format_: str) -> None:
    for number in (3, 1, 2):
        write(tmp_path / "in" / f"{number}.{format_}", rows(1000 * number, 1000 * number + 1000))
    party = Taker()
    counts = brought(of_files(tmp_path, format_), party)
    assert party.table().equals(rows(1000, 4000).cast(party.table().schema))
    assert party.place == [f"3.{format_}", 1000]
    assert counts == {"rows": 3000, "files": 3}
    assert party.finished == 0


@pytest.mark.parametrize("format_", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("done", [0, 1, 99, 100, 777, 1000])
def test_a_source_goes_on_in_the_middle_of_a_file(tmp_path: Path, format_: str, done: int) -> None:
    for number in (1, 2, 3):
        write(tmp_path / "in" / f"{number}.{format_}", rows(1000 * number, 1000 * number + 1000))
    party = Taker(place=[f"2.{format_}", done])
    brought(of_files(tmp_path, format_), party)
    assert party.table()["n"].to_pylist() == list(range(2000 + done, 4000))


def test_one_file(tmp_path: Path) -> None:
    write(tmp_path / "one.csv", rows(0, 10))
    write(tmp_path / "other.csv", rows(10, 20))
    party = Taker()
    brought(of_files(tmp_path, path="one.csv"), party)
    assert party.rows == 10


def test_files_that_are_not_complete_are_left_alone(tmp_path: Path) -> None:
    for name in (".hidden.csv", "_under.csv", "a.csv.tmp", "b.csv.part"):
        write(tmp_path / "in" / "x.csv", rows(0, 1))
        (tmp_path / "in" / "x.csv").rename(tmp_path / "in" / name)
    (tmp_path / "in" / "folder.csv").mkdir()
    write(tmp_path / "in" / "c.csv", rows(5, 6))
    party = Taker()
    brought(of_files(tmp_path), party)
    assert party.table()["n"].to_pylist() == [5]


def test_new_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOOK", 0.01)
    party = Taker()
    with running(of_files(tmp_path, follow=True), party) as driver:
        for number in (1, 2):
            write(tmp_path / "new.csv", rows(number, number + 1))
            (tmp_path / "in").mkdir(exist_ok=True)
            (tmp_path / "new.csv").rename(tmp_path / "in" / f"{number}.csv")
            wait_for(lambda wanted=number: party.rows == wanted)
        # A name that comes before what has been read cannot be told from one that was read.
        write(tmp_path / "in" / "0.csv", rows(0, 1))
        wait_for(lambda: driver.counts.get("late_files") == 1)
        assert not driver.ended.is_set()
    assert party.table()["n"].to_pylist() == [1, 2]
    assert driver.failure is None


BROKEN = {
    "csv": [b"", b"m,s\n1,a\n", b"n,s\n1\n", b"n,s\none,a\n", b'n,s\n1,"\xff"\n', b"\x00\x01\x02"],
    "jsonl": [b"[1]", b'{"n": "one"}', b'{"n": 1', b'{"s": "\xff"}', b"\x00\x01\x02"],
    "parquet": [b"", b"PAR1", b"PAR1 and so on PAR1", b"\x00\x01\x02"],
}


@pytest.mark.parametrize("format_", BROKEN)
def test_broken_files_are_counted_and_the_others_read(
    tmp_path: Path, format_: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "in" / f"a.{format_}", rows(0, 10))
    for number, content in enumerate(BROKEN[format_]):
        (tmp_path / "in" / f"b{number}.{format_}").write_bytes(content)
    write(tmp_path / "in" / f"c.{format_}", rows(10, 20))
    party = Taker()
    with caplog.at_level(logging.WARNING, "holdfast"):
        counts = brought(of_files(tmp_path, format_), party)
    assert party.table()["n"].to_pylist() == list(range(20))
    assert counts == {"rows": 20, "files": 2, "malformed_files": len(BROKEN[format_])}
    assert all(
        f"b{n}.{format_} cannot be read" in caplog.text for n in range(counts["malformed_files"])
    )


def test_a_parquet_file_with_other_columns_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", pa.table({"m": [1]}))
    write(tmp_path / "in" / "b.parquet", pa.table({"n": ["one"], "s": ["x"]}))
    write(tmp_path / "in" / "c.parquet", rows(0, 3).append_column("more", pa.array([1, 2, 3])))
    party = Taker()
    assert brought(of_files(tmp_path, "parquet"), party)["malformed_files"] == 2
    assert party.table().column_names == ["n", "s"]


def test_values_of_csv(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('n,s,more\n1,,x\n,"",y\n2,NA,z\n')
    party = Taker()
    brought(of_files(tmp_path, path="in.csv"), party)
    assert [tuple(row.values()) for row in party.table().to_pylist()] == [
        (1, None),
        (None, ""),
        (2, "NA"),
    ]


def test_pace(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv", rows(0, 60))
    party = Taker()
    begin = time.monotonic()
    brought(of_files(tmp_path, pace=200), party)
    assert time.monotonic() - begin > 0.2
    assert party.rows == 60
    assert max(map(len, party.tables)) <= 20


def test_a_full_log_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.csv", rows(0, 5))
    party = Taker()
    party.full = 2
    brought(of_files(tmp_path), party)
    assert party.rows == 5


def test_a_bounded_input_with_times_is_finished(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("at,n\n2026-03-01,1\n2026-03-02,2\n")
    schema = {"at": "timestamp", "n": "bigint"}
    topology = of_files(tmp_path, path="in.csv", schema=schema, time="at")
    party = Taker()
    brought(topology, party)
    assert party.finished == 1
    with party_of(topology) as real:
        with running(topology, real) as driver:
            wait_for(driver.ended.is_set)
        assert final_rows(topology, 2)["n"].to_pylist() == [1, 2]
    # Nothing comes twice when it is started again.
    with party_of(topology) as real:
        with running(topology, real) as driver:
            wait_for(driver.ended.is_set)
            assert driver.counts.get("rows", 0) == 0
        assert final_rows(topology, 2)["n"].to_pylist() == [1, 2]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with running(of_files(tmp_path), Taker()) as driver:
        wait_for(driver.ended.is_set)
        assert driver.failure is not None
        assert "streams.readings.path: there is no" in driver.failure


def test_csv_has_no_nested_columns(tmp_path: Path) -> None:
    topology = of_files(tmp_path, schema={"a": "array<int>"})
    with pytest.raises(InvalidArgumentError, match="CSV has no arrays"):
        open_source(topology, "readings", Taker())
