"""Hourly energy billing: what each customer owes for each day, from the readings of the meters.

Run it once, unverified, with `python billing.py`; `holdfast verify billing.py` runs replicas of it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdfast.verify import Job
from holdfast.verify.process.determinism import stable_sum

job = Job("billing")
job.source("readings", "data/readings/*.parquet")
job.source(
    "contracts",
    "data/contracts.csv",
    schema="meter STRING, customer STRING, tariff STRING",
    options={"header": "true"},
)
job.source(
    "tariffs",
    "data/tariffs.csv",
    schema="tariff STRING, from_hour INT, to_hour INT, cents_per_kwh DECIMAL(9, 2)",
    options={"header": "true"},
)


@job.stage
def hourly(readings: DataFrame) -> DataFrame:
    """The energy of each meter in each hour; a reading that was sent twice counts once."""
    once = readings.groupBy("meter", "at").agg(F.max("wh").alias("wh"))
    return once.groupBy("meter", F.date_trunc("hour", "at").alias("hour")).agg(
        stable_sum("wh").alias("wh"), F.count("wh").alias("readings")
    )


@job.stage
def charges(hourly: DataFrame, contracts: DataFrame, tariffs: DataFrame) -> DataFrame:
    """What each hour costs, in cents."""
    hour = F.hour("hour")
    return (
        hourly.join(contracts, "meter")
        .join(tariffs, "tariff")
        .where((hour >= F.col("from_hour")) & (hour <= F.col("to_hour")))
        .select(
            "customer",
            "meter",
            "hour",
            "wh",
            "readings",
            (F.col("wh").cast("decimal(18, 3)") / 1000 * F.col("cents_per_kwh"))
            .cast("decimal(18, 6)")
            .alias("cents"),
        )
    )


@job.stage
def bills(charges: DataFrame) -> DataFrame:
    """Each customer's day: energy, money, and the dearest hour, the earlier one of two."""
    dearest = F.max(F.struct("cents", (-F.unix_seconds("hour")).alias("before"), "hour"))
    return charges.groupBy("customer", F.to_date("hour").alias("day")).agg(
        (stable_sum("wh") / 1000).alias("kwh"),
        F.sum("cents").cast("decimal(18, 2)").alias("cents"),
        dearest["hour"].alias("dearest_hour"),
        F.sum("readings").alias("readings"),
    )


if __name__ == "__main__":
    from holdfast import local_session

    spark = local_session("billing")
    job.run(spark)["bills"].orderBy("customer", "day").show(20, truncate=False)
    spark.stop()
