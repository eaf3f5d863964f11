"""What writes is refused in replicas, and what only reads is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml import Pipeline
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.refusing import writes_refused

WRITES: dict[str, Callable[[DataFrame, str], Any]] = {
    "save": lambda df, path: df.write.format("parquet").mode("append").save(path),
    "parquet": lambda df, path: df.write.parquet(path),
    "csv": lambda df, path: df.write.csv(path),
    "json": lambda df, path: df.write.mode("overwrite").json(path),
    "orc": lambda df, path: df.write.orc(path),
    "text": lambda df, path: df.selectExpr("CAST(id AS STRING)").write.text(path),
    "xml": lambda df, path: df.write.xml(path, rowTag="row"),
    "saveAsTable": lambda df, path: df.write.saveAsTable("refused"),
    "insertInto": lambda df, path: df.write.insertInto("refused"),
    "jdbc": lambda df, path: df.write.jdbc("jdbc:none", "t"),
    "V2": lambda df, path: df.writeTo("refused").create(),
    "V2 append": lambda df, path: df.writeTo("refused").append(),
    "foreachPartition": lambda df, path: df.foreachPartition(lambda rows: None),
    "rdd": lambda df, path: df.rdd.saveAsTextFile(path),
    "model": lambda df, path: VectorAssembler(inputCols=["id"]).save(path),
    "pipeline": lambda df, path: Pipeline(stages=[]).write().overwrite().save(path),
    "catalog": lambda df, path: df.sparkSession.catalog.createTable("refused", path),
}
COMMANDS = [
    "INSERT INTO rows SELECT 1",
    "WITH a AS (SELECT 1) INSERT INTO rows SELECT * FROM a",
    "FROM rows INSERT INTO a SELECT id INSERT INTO b SELECT id",
    "INSERT OVERWRITE DIRECTORY '{path}' USING csv SELECT 1",
    "CREATE TABLE refused USING parquet AS SELECT 1 AS a",
    "CREATE VIEW refused AS SELECT 1",
    "MERGE INTO rows USING s ON rows.id = s.id WHEN MATCHED THEN DELETE",
    "DELETE FROM rows",
    "DROP TABLE rows",
    "ANALYZE TABLE rows COMPUTE STATISTICS",
    "TRUNCATE TABLE rows",
    "EXECUTE IMMEDIATE 'INSERT INTO rows SELECT 1'",
    "BEGIN INSERT INTO rows SELECT 1; END",
    "LOAD DATA INPATH '{path}' INTO TABLE rows",
]
READS = [
    "SELECT * FROM rows",
    "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
    "VALUES (1)",
    "CREATE OR REPLACE TEMP VIEW more AS SELECT id FROM rows",
    "CREATE OR REPLACE TEMPORARY FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN 2 * x",
    "SET spark.sql.shuffle.partitions",
    "SHOW TABLES",
    "DESCRIBE TABLE rows",
    "EXPLAIN SELECT * FROM rows",
]


@pytest.mark.parametrize("way", WRITES)
def test_writers_are_refused(spark: SparkSession, tmp_path: Path, way: str) -> None:
    place = tmp_path / "out"
    with writes_refused("job.py") as refused:
        with pytest.raises(InvalidArgumentError, match=r"job\.py: .*take verified_write\("):
            WRITES[way](spark.range(3), str(place))
        assert len(refused) == 1
    assert not place.exists()


def test_commands_of_sql_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).createOrReplaceTempView("rows")
    with writes_refused("job.py") as refused:
        for command in COMMANDS:
            with pytest.raises(InvalidArgumentError, match=r"SQL .*take verified_write"):
                spark.sql(command.replace("{path}", str(tmp_path / "out")))
        with pytest.raises(InvalidArgumentError, match="InsertIntoStatement"):
            spark.sql("INSERT INTO t SELECT * FROM {df}", df=spark.range(1))
    assert len(refused) == len(COMMANDS) + 1
    assert list(tmp_path.iterdir()) == []


def test_what_reads_is_let_through(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("rows")
    with writes_refused("job.py") as refused:
        for query in READS:
            spark.sql(query).collect()
        assert spark.sql("SELECT * FROM {df} LIMIT {n}", df=spark.range(5), n=2).count() == 2
        assert spark.sql("SELECT id FROM rows WHERE id = :n", args={"n": 1}).count() == 1
    assert refused == []


def test_afterwards_all_is_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    with writes_refused("job.py"):
        pass
    spark.range(3).write.parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
