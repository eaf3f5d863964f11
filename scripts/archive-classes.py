"""Archives the classes that Spark loads for work as in the tests (`make test`).

A JVM that is given the archive (`-XX:SharedArchiveFile`) maps these classes instead of reading and
checking them one by one: tests start many sessions. An archive that does not fit the JVM or its
class path is left aside by it.
"""

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import holdfast
from holdfast import aggregates
from holdfast.spark.sessions import SHORT_LIVED, local_session


def main(archive: Path) -> None:
    archive.unlink(missing_ok=True)
    options = (
        f'{SHORT_LIVED} "-XX:ArchiveClassesAtExit={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    )
    spark = local_session("archive", java=options)
    with tempfile.TemporaryDirectory() as folder:
        work(spark, Path(folder))
    gateway = SparkContext._gateway
    spark.stop()
    # The JVM writes the archive when it ends, and it ends when its input does.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    if not archive.exists():
        sys.exit(f"{archive}: was not written; see what the JVM says above")


def work(spark: SparkSession, folder: Path) -> None:
    readings = spark.range(200).select(
        (F.col("id") % 5).cast("string").alias("sensor"),
        F.timestamp_seconds(F.col("id") + 1_700_000_000).alias("at"),
        (F.col("id") * 0.5).alias("value"),
    )
    for kind in ("parquet", "json", "csv"):
        readings.write.format(kind).save(str(folder / kind))
    readings.join(readings.groupBy("sensor").agg(F.sum("value")), "sensor").orderBy("at").collect()
    stream = spark.readStream.schema(readings.schema).parquet(str(folder / "parquet"))
    stream = stream.withWatermark("at", "1 second")
    windows = holdfast.window(
        stream,
        key="sensor",
        time="at",
        size="10s",
        slide="2s",
        aggs=[aggregates.sum("value")],
    )
    query = (
        windows.writeStream.outputMode("append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: batch.collect())
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
