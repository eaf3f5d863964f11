from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.spark_windows.data import WATERMARK, Feed, Stretch, write_csv, write_parquet

STRETCH = Stretch(Feed(6, 0.5), -20, 40, 20)


def in_order(folder: Path, pattern: str) -> list[Path]:
    """The files as Spark takes them: by time of modification."""
    return sorted(folder.glob(pattern), key=lambda path: (path.stat().st_mtime, path.name))


@pytest.fixture
def batches(tmp_path: Path) -> list[pa.Table]:
    """What Spark reads in each batch, two files at a time."""
    tables = [pq.read_table(path) for path in in_order(write_parquet(tmp_path, STRETCH), "*")]
    return [pa.concat_tables(pair) for pair in zip(tables[::2], tables[1::2], strict=True)]


def seconds(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy() / 1e6


def test_every_key_has_a_row_in_every_interval(batches: list[pa.Table]) -> None:
    rows = pa.concat_tables(batches)
    intervals = np.floor(seconds(rows) / STRETCH.feed.every).astype(int)
    pairs = set(zip(rows["key"].to_pylist(), intervals.tolist(), strict=True))
    assert len(rows) == len(pairs) == 6 * 60 * 2
    assert STRETCH.batches * STRETCH.rows_per_batch == len(rows)
    assert len(batches) == STRETCH.batches == 3


def test_rows_come_out_of_order_but_never_behind_the_watermark(batches: list[pa.Table]) -> None:
    assert any((np.diff(seconds(batch)) < 0).any() for batch in batches)
    watermark = -np.inf
    for batch in batches:
        assert seconds(batch).min() > watermark
        watermark = seconds(batch).max() - WATERMARK
    starts = [seconds(batch).min() for batch in batches]
    assert starts == sorted(starts)


def test_a_key_stays_in_its_lane_and_lanes_are_equally_long(tmp_path: Path) -> None:
    files = in_order(write_parquet(tmp_path, STRETCH), "*")
    lanes = [[pq.read_table(path) for path in files[lane::2]] for lane in (0, 1)]
    keys = [set(pa.concat_tables(lane)["key"].to_pylist()) for lane in lanes]
    assert keys[0].isdisjoint(keys[1])
    assert [sum(map(len, lane)) for lane in lanes] == [360, 360]


def test_text_holds_the_same_rows_cut_and_whole(tmp_path: Path) -> None:
    cut, whole = write_csv(tmp_path, STRETCH)
    for lane in (0, 1):
        pieces = "".join(path.read_text() for path in in_order(cut, f"*-{lane}.csv"))
        assert pieces == (whole / f"{lane}.csv").read_text()
    lines = (whole / "0.csv").read_text().splitlines()
    first = in_order(write_parquet(tmp_path, STRETCH), "*-0.parquet")[0]
    (row,) = pq.read_table(first).slice(0, 1).to_pylist()
    key, milliseconds, value = lines[0].split(",")
    assert (key, float(value)) == (row["key"], row["value"])
    assert int(milliseconds) == int(row["ts"].timestamp() * 1000)


def test_written_once_and_the_same_everywhere(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "one", STRETCH)
    stamp = folder.stat().st_mtime_ns
    assert write_parquet(tmp_path / "one", STRETCH) == folder
    assert folder.stat().st_mtime_ns == stamp
    again = write_parquet(tmp_path / "two", STRETCH)
    for path in folder.iterdir():
        assert pq.read_table(path).equals(pq.read_table(again / path.name))


def test_what_a_run_broken_off_left_is_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / f"{STRETCH.name}.parquet"
    partly = folder.with_name(f"{folder.name}.partly")
    partly.mkdir()
    (partly / "0000-0.parquet").write_text("half")
    total = sum(pq.read_table(path).num_rows for path in write_parquet(tmp_path, STRETCH).iterdir())
    assert total == 720
    assert not partly.exists()
