"""Aggregates as a topology writes them: `mean(value) AS mean`."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast import aggregates
from holdfast.aggregates import Aggregate
from holdfast.topology.columns import check_column
from holdfast.topology.problems import did_you_mean, show
from holdfast.topology.settings import Refused, is_not

__all__ = ["FUNCTIONS", "read_aggregate", "write_aggregate"]

FUNCTIONS: Final = {
    "count": aggregates.count,
    "sum": aggregates.sum,
    "mean": aggregates.mean,
    "min": aggregates.min,
    "max": aggregates.max,
    "first": aggregates.first,
    "last": aggregates.last,
    "range": aggregates.range,
    "stddev": aggregates.stddev,
    "variance": aggregates.variance,
    "stddev_population": aggregates.stddev_population,
    "variance_population": aggregates.variance_population,
    "approx_distinct": aggregates.approx_distinct,
}

_OTHER_WORDS: Final = {
    "avg": "mean",
    "average": "mean",
    "var_pop": "variance_population",
    "stddev_pop": "stddev_population",
    "approx_count_distinct": "approx_distinct",
}

_NAME = r"`[^`]+`|[^\s`()]+"
_CALL: Final = re.compile(
    rf"\s*(?P<function>\w+)\s*\(\s*(?P<column>{_NAME})?\s*\)"
    rf"(?:\s*AS\s+(?P<name>{_NAME}))?\s*",
    re.IGNORECASE | re.ASCII,
)
_SIMPLE_NAME: Final = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)


def read_aggregate(value: Any) -> Aggregate:
    """The aggregate that a text names; one that is made already, if a text could name it."""
    if isinstance(value, Aggregate):
        return _expressible(value)
    if not isinstance(value, str):
        raise is_not(value, "an aggregate")
    call = _CALL.fullmatch(value)
    if call is None:
        raise Refused.because(
            f"{show(value)} is no aggregate", "write it as mean(column) or mean(column) AS name"
        )
    made = _make(call["function"].lower(), _unquoted(call["column"]))
    return made.alias(check_column(_unquoted(call["name"]))) if call["name"] else made


def write_aggregate(aggregate: Aggregate) -> str:
    column = "" if aggregate.column is None else _quoted(aggregate.column)
    return f"{aggregate.function}({column}) AS {_quoted(aggregate.name)}"


def _make(function: str, column: str | None) -> Aggregate:
    if function not in FUNCTIONS:
        near = _OTHER_WORDS.get(function)
        hint = f" (did you mean {near!r}?)" if near else did_you_mean(function, FUNCTIONS)
        raise Refused.because(
            f"there is no aggregate {function!r}{hint}", f"use one of {', '.join(FUNCTIONS)}"
        )
    if function == "count":
        return aggregates.count(None if column in (None, "*", "1") else column)
    if column is None or column == "*":
        raise Refused.because(
            f"{function}() needs a column", f"write {function}(column), with the column's name"
        )
    return FUNCTIONS[function](column)


def _expressible(aggregate: Aggregate) -> Aggregate:
    made = _make(aggregate.function, aggregate.column).alias(aggregate.name)
    if made != aggregate:
        raise Refused.because(
            f"{show(aggregate.name)} has parameters of its own", "topologies take only plain ones"
        )
    check_column(aggregate.name)
    if "`" in aggregate.name + (aggregate.column or ""):
        raise Refused.because(f"{show(aggregate.name)} has a backtick", "choose another name")
    return aggregate


def _unquoted(name: str | None) -> str | None:
    return name[1:-1] if name and name.startswith("`") else name


def _quoted(name: str) -> str:
    return name if _SIMPLE_NAME.fullmatch(name) else f"`{name}`"
