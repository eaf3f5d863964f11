"""Results a second of a burst into a chain of composite streams, on Spark.

Run as a program it prints them for a number of hops as JSON. It uses nothing but what `Site` had at
revision e139b00, so that it can be run with that revision's modules too."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.tenants.site import Site, streams_of
from benchmarks.tenants.topologies import length
from holdfast.spark.sessions import local_session, stop_session


def main(*given: str) -> None:
    """For each `HOPS:UPDATES`."""
    spark = local_session("tenants", master="local[2]", partitions=1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps([_measured(spark, Path(folder), each) for each in given]))
    finally:
        stop_session(spark)


def _measured(spark: object, folder: Path, wanted: str) -> dict[str, object]:
    hops, updates = map(int, wanted.split(":"))
    site = Site(folder / str(hops))
    site.put("o", streams_of(length(hops + 1)))
    with site.on_spark(spark):  # type: ignore[arg-type]
        # A burst of the same size first: a server runs for long, and Spark's JVM compiles the code
        # of its first batches while it runs them.
        site.rate(["bench/o/s0"], updates)
        before = _told(site)
        # In the log before the clock starts: what is measured is the engine.
        site.publish(["bench/o/s0"], updates)
        began = time.perf_counter()
        site.settle()
        seconds = time.perf_counter() - began
        after = _told(site)
    assert _stored(site) == 2 * updates * (hops + 1), "a result is missing"
    site.close()
    stages = {name: after["seconds"][name] - at for name, at in before["seconds"].items()}
    return {
        "hops": hops,
        "seconds": seconds,
        "results": updates * hops,
        "batches": after["batches"] - before["batches"],
        "stages": stages,
    }


def _stored(site: Site) -> int:
    """In rows, and in pages where there are some."""
    database = site.service.database
    stored = database.rows("SELECT count(*) FROM updates")[0][0]
    if database.rows("SELECT name FROM sqlite_master WHERE name = 'pages'"):
        stored += database.rows("SELECT coalesce(sum(count), 0) FROM pages")[0][0]
    return int(stored)


def _told(site: Site) -> Any:
    # The last batch is told of right after it is stored.
    time.sleep(0.2)
    return site.service.stages.told()


if __name__ == "__main__":
    main(*sys.argv[1:])
