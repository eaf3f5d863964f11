"""The stages as a streaming query of Spark, killed and started again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from holdfast.tenants.process.engine.operating import Outcome, write_outcome
from holdfast.tenants.process.engine.query import LogSource, _gathered, start_query, write_place
from holdfast.tenants.process.engine.storing import (
    STAGES,
    IncompleteBatchError,
    Stages,
    StoredBatch,
    progress,
)
from tests.pipeline.sources.rig import wait_for
from tests.tenants.process.rig import Platform, derived, simple
from tests.tenants.process.test_platform import wind_chill

PATIENCE = 90


class Running:
    """A query that settles a platform."""

    def __init__(self, spark: SparkSession, platform: Platform, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        write_place(folder, str(platform.place))
        self._platform = platform
        self._moved = Event()
        self.stages = Stages()
        self._query = start_query(spark, folder, platform.database, self._note)

    def _note(self, batch: StoredBatch) -> None:
        self.stages.add(batch.seconds, batch.counts)
        self._moved.set()

    def wait(self) -> None:
        while progress(self._platform.database) < self._platform.log.end:
            assert self._moved.wait(PATIENCE), self._query.exception()
            self._moved.clear()

    def stop(self) -> None:
        self._query.stop()


def test_a_query_gives_what_the_stages_give(spark: SparkSession, tmp_path: Path) -> None:
    live, alone = Platform(tmp_path / "live.db"), Platform(tmp_path / "alone.db")
    running = Running(spark, live, tmp_path / "engine")
    for platform in (live, alone):
        wind_chill(platform)
        for at in range(1, 120):
            platform.publish("ann/roof/air", at * 10, celsius=float(at % 17 - 5))
            if at % 3 == 0:
                platform.publish("ben/mast/wind", at * 10 + 3, kmh=float(at))
            if at == 60:
                twice = derived({"t": "roof/air"}, {"c": "t.celsius * 2.0"})
                platform.put("ann", "more", streams={"twice": twice})
                # From here on the query begins again, with what its checkpoint says.
                if platform is live:
                    running.wait()
                    running.stop()
                    running = Running(spark, live, tmp_path / "engine")
    running.wait()
    running.stop()
    alone.settle()
    assert live.contents() == alone.contents()
    assert len(live.updates("ann/more/twice")) == 59


def test_a_pipeline_of_any_depth_settles_in_one_batch(spark: SparkSession, tmp_path: Path) -> None:
    depth = 200
    platform = Platform(tmp_path / "store.db")
    chain = {
        f"c{n}": derived({"i": f"c{n - 1}" if n else "a"}, {"n": "i.n + 1.0"}) for n in range(depth)
    }
    platform.put("ann", "o", streams={"a": simple(n="number"), **chain})
    platform.settle()
    running = Running(spark, platform, tmp_path / "engine")
    platform.publish("ann/o/a", 1, n=0.0)
    running.wait()
    wait_for(lambda: running.stages.told()["batches"] == 1, PATIENCE)
    running.stop()
    assert platform.values(f"ann/o/c{depth - 1}", "n") == [float(depth)]
    positions = platform.database.rows("SELECT DISTINCT position FROM updates")
    assert len(positions) == 1
    told = running.stages.told()
    assert (told["batches"], told["updates"], told["results"]) == (1, 1, depth)
    assert all(told["seconds"][stage] > 0 for stage in STAGES)


def test_a_batch_is_as_many_tasks_as_the_master_has_cores(tmp_path: Path) -> None:
    """Streams that have nothing to do with each other are shared among them."""
    platform = Platform(tmp_path / "store.db")
    names = [f"o{n}" for n in range(20)]
    for name in names:
        twice = derived({"i": "a"}, {"n": "i.n * 2.0"})
        platform.put("ann", name, streams={"a": simple(n="number"), "b": twice})
    platform.settle()
    write_place(tmp_path, str(platform.place))
    for name in names:
        platform.publish(f"ann/{name}/a", 1, n=1.0)
    for cores in (1, 7, 100):
        spark = MagicMock()
        spark.sparkContext.defaultParallelism = cores
        start_query(spark, tmp_path, platform.database, lambda _: None)
        given = spark.readStream.format.return_value.options.call_args.kwargs
        reader = LogSource(given).streamReader(None)
        start = reader.initialOffset()
        tasks = reader.partitions(start, reader.latestOffset(start, None))
        assert len(tasks) == min(cores, len(names))


class Dying:
    """A database that fails at a step of the sink, once."""

    def __init__(self, database: Any, *, stored: bool) -> None:
        self._database = database
        self._stored = stored
        self.failed = False

    def rows(self, statement: str, values: Any = ()) -> Any:
        return self._database.rows(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        if self.failed:
            with self._database.transaction() as work:
                yield work
            return
        self.failed = True
        if not self._stored:
            raise OSError("fails before it is stored")
        with self._database.transaction() as work:
            yield work
        raise OSError("fails after it is stored")

    def close(self) -> None:
        self._database.close()


@pytest.mark.parametrize("stored", [False, True])
def test_a_batch_that_failed_beside_its_store_is_there_once(
    spark: SparkSession, tmp_path: Path, stored: bool
) -> None:
    """Stored and not committed by Spark, or neither: the query that follows goes on by itself."""
    live, alone = Platform(tmp_path / "live.db"), Platform(tmp_path / "alone.db")
    for platform in (live, alone):
        wind_chill(platform)
        platform.publish("ann/roof/air", 10, celsius=-3.0)
        platform.publish("ben/mast/wind", 13, kmh=20.0)
    alone.settle()
    folder = tmp_path / "engine"
    folder.mkdir()
    write_place(folder, str(live.place))
    dying = Dying(live.database, stored=stored)
    query = start_query(spark, folder, dying, lambda _: None)
    wait_for(lambda: not query.isActive, PATIENCE)
    assert query.exception() is not None
    running = Running(spark, live, folder)
    running.wait()
    running.stop()
    assert live.contents() == alone.contents()


def test_a_checkpoint_that_says_otherwise_than_the_store_is_thrown_away(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark had committed what was never stored; the server then refused to start for good."""
    live, alone = Platform(tmp_path / "live.db"), Platform(tmp_path / "alone.db")
    for platform in (live, alone):
        wind_chill(platform)
        platform.publish("ann/roof/air", 10, celsius=-3.0)
    live.database.rows("VACUUM INTO ?", (str(tmp_path / "before.db"),))
    running = Running(spark, live, tmp_path / "engine")
    running.wait()
    wait_for(lambda: any((tmp_path / "engine/checkpoint/commits").iterdir()), PATIENCE)
    running.stop()
    live.database.close()
    for left in tmp_path.glob("live.db*"):
        left.unlink()
    shutil.copy(tmp_path / "before.db", tmp_path / "live.db")
    live = Platform(tmp_path / "live.db")
    for platform in (live, alone):
        platform.publish("ben/mast/wind", 13, kmh=20.0)
    running = Running(spark, live, tmp_path / "engine")
    running.wait()
    running.stop()
    alone.settle()
    assert live.contents() == alone.contents()


def test_a_batch_of_which_spark_hands_over_nothing_or_a_part_is_an_error(tmp_path: Path) -> None:
    """As happens where the thread that serves the rows runs out of memory."""
    platform = Platform(tmp_path / "store.db")
    outcome = write_outcome(Outcome())
    whole = [
        SimpleNamespace(bundles=2, bundle=n, cells=2, cell=at, is_left=False, data=b"")
        for n in range(2)
        for at in range(2)
    ]
    for row in whole:
        row.data = outcome[:5] if row.cell == 0 else outcome[5:]
    assert len(_gathered(1, whole, platform.database)) == 2
    for missing in ([], whole[:3], whole[:2], whole[2:]):
        with pytest.raises(IncompleteBatchError):
            _gathered(1, missing, platform.database)
