"""A program with a boundary and a write: `nightly.py OUTPUT`, with data in `readings` beside it.

With `--plain` it writes as programs do that are not verified: what a replica has made, unseen. With
`--late` it does so behind its last boundary, to another place, and with `--open` without Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify import verified, verified_write

SOURCES = ["readings/*.parquet"]

output, *options = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
readings = spark.read.parquet(str(Path(__file__).parent / "readings"))
sums = verified(readings.groupBy("meter").agg(F.sum("wh").alias("wh")), "sums")
most = sums.groupBy((F.col("meter") % 2).alias("side")).agg(F.max("wh").alias("wh"))
if "--plain" in options:
    most.write.mode("overwrite").parquet(output)
verified_write(most, "most", path=output, mode="append", partition_by=["side"])
if "--late" in options:
    most.write.mode("overwrite").parquet(f"{output}-late")
if "--open" in options:
    Path(f"{output}-late").write_text(str(most.count()))
spark.stop()
