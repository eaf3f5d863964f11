"""What Spark makes of the SQL in a step, looked at before it runs.

Each row must be looked at alone, and come out the same on every replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from holdfast.errors import InvalidArgumentError

__all__ = ["analyse"]

_UNSTEADY: Final = frozenset({"Now", "LocalTimestamp", "SparkVersion", "AesEncrypt"})
"""Expressions that Spark takes for deterministic and that differ between replicas, or from one
batch to the next, beside those called Current-something. Encryption begins with a random number."""
_QUERIES: Final = frozenset({"Exists", "InSubquery", "ListQuery"})


def analyse(place: str, df: DataFrame, make: Callable[[DataFrame], DataFrame], node: str) -> Any:
    """What `make` makes of a DataFrame with the columns of a stream. `node` is what the plan has
    more then: a Project or a Filter, and nothing beside it."""
    try:
        made = make(df)
        plan = made._jdf.queryExecution().analyzed()
    except (AnalysisException, ParseException) as error:
        message = str(error).strip().split("\n", 1)[0].split(" SQLSTATE:", 1)[0].rstrip(".")
        raise InvalidArgumentError(
            f"{place}: {message}; write SQL of Spark over the columns {', '.join(df.columns)}"
        ) from None
    known = len(list(_nodes(df._jdf.queryExecution().analyzed())))
    nodes = list(_nodes(plan))
    _check_nodes(place, [each.nodeName() for each in nodes[: len(nodes) - known]], node)
    for expression in _each(plan.expressions()):
        _check_expression(place, expression)
    return made


def _check_nodes(place: str, found: list[str], wanted: str) -> None:
    if "Generate" in found:
        raise InvalidArgumentError(
            f"{place}: makes several rows of one, which has no order that all replicas share; use "
            "a function step, whose rows have one"
        )
    if found != [wanted]:
        raise InvalidArgumentError(
            f"{place}: looks at more than one row, or leaves some out; use a window step for what "
            "is to be aggregated, and where for conditions"
        )


def _check_expression(place: str, expression: Any) -> None:
    for each in _expressions(expression):
        kind = each.getClass().getSimpleName()
        if kind in _QUERIES or kind.endswith("Subquery"):
            raise InvalidArgumentError(
                f"{place}: asks for other data than the row has; calculate from the columns alone, "
                "or join with a stream"
            )
        if kind in _UNSTEADY or kind.startswith("Current") or not each.deterministic():
            raise InvalidArgumentError(
                f"{place}: {each.prettyName()} differs between replicas; calculate from the "
                "columns alone, the time of a row is stime"
            )


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _expressions(expression: Any) -> Iterator[Any]:
    """The innermost first, so that it is named what is at fault."""
    for child in _each(expression.children()):
        yield from _expressions(child)
    yield expression


def _each(some: Any) -> Iterator[Any]:
    iterator = some.iterator()
    while iterator.hasNext():
        yield iterator.next()
