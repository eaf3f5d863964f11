"""Spark's rate source: every number once, over restarts of the query and of the party."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.pipeline.topology import Rate
from tests.pipeline.sources.rig import alone, final_rows, party_of, running, wait_for


def test_every_number_comes_once(tmp_path: Path, spark: SparkSession) -> None:
    topology = alone(tmp_path, Rate(rows_per_second=50))
    count = 0
    for _ in range(2):
        with party_of(topology) as party, running(topology, party) as driver:
            wait_for(lambda: driver.counts.get("rows", 0) >= 60 or driver.failure, 60)
            driver.stop()
            assert driver.failure is None
            count += driver.counts["rows"]
    with party_of(topology):
        values = final_rows(topology, count)["value"].to_pylist()
    assert sorted(values) == list(range(count))
    # The session is not ours.
    assert spark.range(3).count() == 3


def test_a_batch_that_was_brought_is_not_brought_again(
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """Spark had not noted that it was done with the last batch."""
    topology = alone(tmp_path, Rate(rows_per_second=50))
    count = 0
    for _ in range(2):
        with party_of(topology) as party, running(topology, party) as driver:
            wait_for(lambda: driver.counts.get("rows", 0) >= 60 or driver.failure, 60)
            driver.stop()
            assert driver.failure is None
            count += driver.counts["rows"]
        commits = tmp_path / "alone-state" / "readings" / "rate" / "commits"
        last = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
        for path in (last, commits / f".{last.name}.crc"):
            path.unlink(missing_ok=True)
    with party_of(topology):
        values = final_rows(topology, count)["value"].to_pylist()
    assert sorted(values) == list(range(count))
