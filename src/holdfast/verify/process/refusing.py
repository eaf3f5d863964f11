"""Refusal of writes in the Python code of a replica.

It catches mistakes, not malice: what Python writes by itself or through the JVM passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyspark import RDD
from pyspark.ml.util import JavaMLWriter, MLWriter
from pyspark.sql import Catalog, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.streaming import DataStreamWriter

from holdfast.errors import RefusedWriteError
from holdfast.verify.process.patching import Patches

_WRITERS: Final[dict[type, tuple[str, ...]]] = {
    DataFrameWriter: (
        *("save", "insertInto", "saveAsTable", "jdbc"),
        *("json", "parquet", "text", "csv", "xml", "orc"),
    ),
    DataFrameWriterV2: (
        *("create", "replace", "createOrReplace"),
        *("append", "overwrite", "overwritePartitions"),
    ),
    MergeIntoWriter: ("merge",),
    DataStreamWriter: ("start", "toTable"),
    DataFrame: ("foreach", "foreachPartition"),
    RDD: (
        *("foreach", "foreachPartition", "saveAsTextFile", "saveAsPickleFile"),
        *("saveAsNewAPIHadoopDataset", "saveAsNewAPIHadoopFile", "saveAsHadoopDataset"),
        *("saveAsHadoopFile", "saveAsSequenceFile"),
    ),
    MLWriter: ("save",),
    JavaMLWriter: ("save",),
    Catalog: (
        *("createTable", "createExternalTable", "dropTable", "truncateTable"),
        *("createDatabase", "dropDatabase", "dropView", "recoverPartitions", "analyzeTable"),
    ),
}
_HARMLESS: Final = {
    *("CacheTable", "CacheTableAsSelect", "ClearCacheCommand", "UncacheTable"),
    *("CreateTempViewUsing", "CreateUserDefinedFunction", "CreateVariable", "DropVariable"),
    *("DescribeColumn", "DescribeColumnCommand", "DescribeFunction", "DescribeNamespace"),
    *("DescribeQueryCommand", "DescribeRelation", "DescribeTableCommand", "ExplainCommand"),
    *(
        "RefreshResource",
        "RefreshTable",
        "ResetCommand",
        "SetCatalogAndNamespace",
        "SetCommand",
        "SetVariable",
    ),
    *("ShowColumns", "ShowFunctions", "ShowNamespaces", "ShowTables", "ShowViews"),
}
"""Commands of Spark SQL that change nothing but the session."""
_OTHERS: Final = ("InsertInto", "UnresolvedExecuteImmediate", "ExecuteImmediate")
"""What writes, or may, and is no command to Spark's parser."""
_FIELD: Final = re.compile(r"\{[^{}]*\}")
"""Where `spark.sql` puts a keyword argument."""


@contextmanager
def writes_refused(place: str) -> Iterator[list[str]]:
    """Raise RefusedWriteError for each write; what was refused, so that code which catches that
    is found out. `place`: the file with the code."""
    refused: list[str] = []

    def refuse(what: str) -> None:
        refused.append(
            f"{place}: {what} writes what no other replica has agreed to; take "
            "verified_write(df, name, path=...), which is written once when it is agreed upon"
        )
        raise RefusedWriteError(refused[-1])

    run = SparkSession.sql

    def sql(self: SparkSession, sqlQuery: str, *args: Any, **more: Any) -> Any:  # noqa: N803
        text = _FIELD.sub("x", sqlQuery) if set(more) - {"args"} else sqlQuery
        command = _command_in(self, text)
        if command is not None:
            refuse(f"SQL {' '.join(sqlQuery.split())[:60]!r} ({command})")
        return run(self, sqlQuery, *args, **more)

    with Patches() as patches:
        for kind, names in _WRITERS.items():
            for name in names:
                what = f"{kind.__name__}.{name}"
                patches.replace(kind, name, lambda *_, what=what, **__: refuse(what))
        patches.replace(SparkSession, "sql", sql)
        yield refused


def _command_in(spark: SparkSession, query: str) -> str | None:
    """What a query would write by."""
    jvm = spark._jvm
    assert jvm is not None
    find = jvm.java.lang.Class.forName
    kinds = [
        find(f"org.apache.spark.sql.catalyst.plans.logical.{name}")
        for name in ("Command", "ParsedStatement")
    ]
    open_ = [spark._jsparkSession.sessionState().sqlParser().parsePlan(query)]
    while open_:
        node = open_.pop()
        name = str(node.getClass().getSimpleName())
        is_command = name.startswith(_OTHERS) or any(kind.isInstance(node) for kind in kinds)
        if is_command and name not in _HARMLESS and not _is_temporary(node, name):
            return name
        children = node.children()
        open_ += [children.apply(number) for number in range(children.size())]
    return None


def _is_temporary(node: Any, name: str) -> bool:
    """Whether it makes a view or function of this session alone."""
    if name == "CreateViewCommand":
        return str(node.viewType().toString()) in ("LocalTempView", "GlobalTempView")
    return name in ("CreateFunctionCommand", "CreateSQLFunctionCommand") and bool(node.isTemp())
