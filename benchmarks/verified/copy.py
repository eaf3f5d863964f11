"""One copy of a job as plain Spark runs it: `python -m benchmarks.verified.copy FILE OUTPUT SPARK`.

SPARK are the settings of a replica's session, as JSON, so that both have the same.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.verify import Job, load_job


def main(arguments: list[str]) -> None:
    file, output, settings = arguments
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    job = load_job(file)
    assert isinstance(job, Job)
    builder = SparkSession.builder.appName("copy")
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    made = job.run(spark)
    for stage in job.plan.outputs:
        made[stage].write.parquet(str(Path(output) / stage))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
