"""What in a DataFrame's plan is known to differ between replicas, found before it runs.

It is a warning: some of it may not matter for the rows that a stage gives, and what Python
functions do cannot be seen. `check_job` runs a stage twice and shows what does differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

__all__ = ["Suspect", "suspects"]

_CLOCKS: Final = frozenset({"Now", "LocalTimestamp"})
_PLACES: Final = frozenset(
    {
        "MonotonicallyIncreasingID",
        "SparkPartitionID",
        "InputFileName",
        "InputFileBlockStart",
        "InputFileBlockLength",
    }
)
_CHANCE: Final = frozenset({"AesEncrypt", "SparkVersion"})
"""Spark takes these for deterministic. Encryption begins with a random number."""
_BY_ORDER: Final = frozenset(
    {"First", "Last", "AnyValue", "CollectList", "CollectSet", "ListAgg", "Mode"}
)
_SKETCHES: Final = frozenset({"ApproximatePercentile", "HyperLogLogPlusPlus", "ApproxTopK"})
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
    if name in ("GlobalLimit", "LocalLimit", "Tail", "Offset") and not _sorts(plan):
        yield Suspect("limit without order", "take ordered(df, ...).limit(n)")
    elif name == "Sample":
        yield Suspect("sample", "take where(seeded_random(seed, keys) < fraction)")
    elif name == "Deduplicate" and plan.keys().size() < plan.output().size():
        remedy = "take row_number() over total_order(df, ...), and the first"
        yield Suspect("dropDuplicates by some of the columns", remedy)
    for expression in _each(plan.expressions()):
        yield from _in(expression, is_sorted=False)
    for child in _each(plan.children()):
        yield from _in_plan(child)


def _sorts(plan: Any) -> bool:
    """Whether what lies below a limit is sorted; a projection leaves the order as it is."""
    node = plan
    while node.children().size() == 1:
        node = node.children().head()
        if node.nodeName() == "Sort":
            return True
        if node.nodeName() not in ("Project", "Filter", "LocalLimit", "GlobalLimit", "Offset"):
            return False
    return False


def _in(expression: Any, is_sorted: bool) -> Iterator[Suspect]:
    """Of an expression and those in it. `is_sorted`: whether it is sorted by what holds it."""
    kind = expression.getClass().getSimpleName()
    name = expression.prettyName().lower()
    if kind in _CLOCKS or kind.startswith("Current"):
        yield Suspect(name, "take job_time()")
    elif kind in _PLACES:
        yield Suspect(name, "depends on partitions and files; number rows by total_order(df, ...)")
    elif kind in _BY_ORDER and not is_sorted and not _is_ordered(expression):
        yield Suspect(
            name, "depends on the order of rows; sort what it gives, or take min, max or max_by"
        )
    elif kind in _SKETCHES:
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
