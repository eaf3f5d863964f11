"""The stages as a streaming query of Spark, killed and started again."""

from __future__ import annotations

from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from holdfast.tenants.engine.query import start_query, write_place
from holdfast.tenants.engine.stages import STAGES, Stages, StoredBatch
from holdfast.tenants.engine.storing import progress
from tests.sources.rig import wait_for
from tests.tenants.rig import Platform, derived, simple
from tests.tenants.test_platform import wind_chill

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
