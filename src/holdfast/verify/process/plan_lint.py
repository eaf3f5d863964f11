"""Parts of a DataFrame's plan that are known to differ between replicas.

It is a warning: some of it may not matter for the rows that a stage gives, and what Python
functions do cannot be seen. `check_job` runs a stage twice and shows what does differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import DataFrame

# By the whole name of Spark's class: others begin alike, as `CurrentRow$`, the bound of a frame.
_CLOCKS: Final = frozenset(
    {
        "Now",
        "UTCTimestamp",
        "LocalTimestamp",
        "LocalTimestampNanos",
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
        "CurrentTimestampNanos",
        "CurrentTimestampPrecision",
        "CurrentBatchTimestamp",
    }
)
_SURROUNDINGS: Final = frozenset(
    {
        "CurrentUser",
        "CurrentDatabase",
        "CurrentCatalog",
        "CurrentPath",
        "CurrentTimeZone",
        "SparkVersion",
    }
)
_PLACES: Final = frozenset(
    {
        "MonotonicallyIncreasingID",
        "SparkPartitionID",
        "InputFileName",
        "InputFileBlockStart",
        "InputFileBlockLength",
    }
)
_CHANCE: Final = frozenset({"AesEncrypt"})
"""Spark takes it for deterministic. Encryption begins with a random number."""
_BY_ORDER: Final = frozenset(
    {"First", "Last", "AnyValue", "CollectList", "CollectSet", "ListAgg", "Mode"}
)
_BY_PLACE: Final = frozenset({"RowNumber", "NTile", "NthValue", "Lead", "Lag"})
"""Functions of a window that go by the places of rows in it."""
_SKETCHES: Final = (
    "ApproximatePercentile",
    "ApproxTopK",
    "HistogramNumeric",
    "HllSketchAgg",
    "HllUnionAgg",
    "KllSketchAgg",
    "KllMergeAgg",
    "TupleSketchAgg",
    "TupleUnionAgg",
    "TupleIntersectionAgg",
)
"""Beginnings of names: each has variants by the type of its input. Not among them is what comes out
the same in any order: `HyperLogLogPlusPlus` takes the maximum of each register, `CountMinSketchAgg`
adds, `BloomFilterAggregate` and bitmaps set bits, theta sketches keep the smallest hashes."""
_FLOATING: Final = frozenset(
    {
        "Sum",
        "Average",
        "VariancePop",
        "VarianceSamp",
        "StddevPop",
        "StddevSamp",
        "Skewness",
        "Kurtosis",
        "Corr",
        "CovPopulation",
        "CovSample",
        "RegrSlope",
        "RegrIntercept",
        "RegrR2",
        "RegrSXY",
    }
)
_SORTS: Final = frozenset({"ArraySort", "SortArray"})


@dataclass(frozen=True)
class Suspect:
    """Something that may come out otherwise on another replica."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def suspects(df: DataFrame) -> list[Suspect]:
    """Each once, in the order in which they stand in the plan, from the result down."""
    found: dict[Suspect, None] = {}
    found.update(dict.fromkeys(_in_plan(df._jdf.queryExecution().analyzed())))
    return list(found)


def _in_plan(plan: Any) -> Iterator[Suspect]:
    name = plan.nodeName()
    if name in ("GlobalLimit", "LocalLimit", "Tail", "Offset"):
        sort = _sort_below(plan)
        if sort is None:
            yield Suspect("limit without order", "take ordered(df, ...).limit(n)")
        elif _leaves_ties(sort.order(), [], sort.child()):
            yield Suspect("limit by an order that may leave ties", "take ordered(df, ...).limit(n)")
    elif name == "Sample":
        yield Suspect("sample", "take where(seeded_random(seed, keys) < fraction)")
    elif name == "Deduplicate" and plan.keys().size() < plan.output().size():
        remedy = "take row_number() over total_order(df, ...), and the first"
        yield Suspect("dropDuplicates by some of the columns", remedy)
    if name == "Window":
        partition = list(_each(plan.partitionSpec()))
        has_ties = _leaves_ties(plan.orderSpec(), partition, plan.child())
        for expression in _each(plan.windowExpressions()):
            yield from _in_window(expression, has_ties)
    else:
        for expression in _each(plan.expressions()):
            yield from _in(expression, is_sorted=False)
    for child in _each(plan.children()):
        yield from _in_plan(child)


def _sort_below(plan: Any) -> Any | None:
    """The sort by which a limit goes; a projection leaves the order as it is."""
    node = plan
    while node.children().size() == 1:
        node = node.children().head()
        if node.nodeName() == "Sort":
            return node
        if node.nodeName() not in ("Project", "Filter", "LocalLimit", "GlobalLimit", "Offset"):
            return None
    return None


def _leaves_ties(order: Any, partition: list[Any], rows: Any) -> bool:
    """Whether rows that differ may be equal in this order: see `total_order`."""
    kept = {each.exprId().id() for each in partition if _is_column(each)}
    kept |= {each.child().exprId().id() for each in _each(order) if _is_column(each.child())}
    return any(
        column.exprId().id() not in kept and _is_sortable(column.dataType())
        for column in _each(rows.output())
    )


def _is_column(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "AttributeReference")


def _is_sortable(kind: Any) -> bool:
    jvm: Any = SparkContext._jvm
    return bool(jvm.org.apache.spark.sql.catalyst.expressions.RowOrdering.isOrderable(kind))


def _in_window(expression: Any, has_ties: bool) -> Iterator[Suspect]:
    """Of what a window gives: in a total order its rows have one order, and it is sorted."""
    if expression.getClass().getSimpleName() != "WindowExpression":
        for child in _each(expression.children()):
            yield from _in_window(child, has_ties)
        return
    call = expression.windowFunction()
    is_aggregate = call.getClass().getSimpleName() == "AggregateExpression"
    function = call.aggregateFunction() if is_aggregate else call
    kind = function.getClass().getSimpleName()
    if not has_ties:
        for child in _each(function.children()):
            yield from _in(child, is_sorted=False)
        return
    if kind in _BY_PLACE or (
        is_aggregate
        and kind not in _BY_ORDER
        and _goes_by_rows(expression.windowSpec().frameSpecification())
    ):
        yield Suspect(
            f"{function.prettyName().lower()} by an order that may leave ties",
            "order the window by total_order(df, ...)",
        )
    yield from _in(call, is_sorted=False)


def _goes_by_rows(frame: Any) -> bool:
    """Whether a frame counts rows, and does not hold all of them."""
    if frame.getClass().getSimpleName() != "SpecifiedWindowFrame":
        return False
    bounds = frame.lower().toString(), frame.upper().toString()
    return frame.frameType().toString().startswith("RowFrame") and bounds != (
        "unboundedpreceding$()",
        "unboundedfollowing$()",
    )


def _in(expression: Any, is_sorted: bool) -> Iterator[Suspect]:
    """Of an expression and those in it. `is_sorted`: whether it is sorted by what holds it."""
    kind = expression.getClass().getSimpleName()
    name = expression.prettyName().lower()
    if kind in _CLOCKS:
        yield Suspect(name, "take job_time()")
    elif kind in _SURROUNDINGS:
        yield Suspect(name, "depends on where it runs; write the value itself")
    elif kind in _PLACES:
        yield Suspect(name, "depends on partitions and files; number rows by total_order(df, ...)")
    elif kind in _BY_ORDER and not is_sorted and not _is_ordered(expression):
        yield Suspect(
            name, "depends on the order of rows; sort what it gives, or take min, max or max_by"
        )
    elif kind.startswith(_SKETCHES):
        yield Suspect(name, "depends on how rows are cut into partitions; take an exact one")
    elif kind in _FLOATING and _is_floating(expression):
        yield Suspect(
            f"{name} of floating-point numbers",
            "depends on the order of rows; take stable_sum, or cast to decimal",
        )
    elif kind in _CHANCE or _is_random(expression):
        yield Suspect(name, "differs each time; take seeded_random(seed, keys)")
    for child in _each(expression.children()):
        yield from _in(child, kind in _SORTS or (is_sorted and kind == "AggregateExpression"))


def _is_ordered(expression: Any) -> bool:
    """Whether the call says itself in which order: WITHIN GROUP."""
    return "WITHIN GROUP" in expression.sql().upper()


def _is_floating(expression: Any) -> bool:
    return any(
        child.dataType().typeName() in ("double", "float") for child in _each(expression.children())
    )


def _is_random(expression: Any) -> bool:
    """Whether it is of chance itself, and not only by what it is made of."""
    return not expression.deterministic() and all(
        child.deterministic() for child in _each(expression.children())
    )


def _each(some: Any) -> Iterator[Any]:
    iterator = some.iterator()
    while iterator.hasNext():
        yield iterator.next()
