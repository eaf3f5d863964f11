"""SQL expressions and aggregates of a topology, checked without Spark."""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast import aggregates
from holdfast.aggregates import Aggregate
from holdfast.config.problems import did_you_mean, show
from holdfast.config.settings import Refused, is_not
from holdfast.pipeline.machine.tuples import STIME
from holdfast.pipeline.topology.columns import check_column

_QUOTED: Final = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL
)

_UNSTEADY: Final = re.compile(
    r"\b(?:(rand|randn|random|uuid|shuffle|now|curdate|current_time|monotonically_increasing_id"
    r"|spark_partition_id|input_file_name)\s*\(|(current_timestamp|current_date|localtimestamp)\b"
    r"|(unix_timestamp)\s*\(\s*\))",
    re.IGNORECASE,
)
_AGGREGATE: Final = re.compile(
    r"\b(count|sum|avg|mean|min|max|first|last|stddev|variance|collect_list|collect_set"
    r"|approx_count_distinct)\s*\(",
    re.IGNORECASE,
)
_OVER: Final = re.compile(r"\)\s*over\s*\(", re.IGNORECASE)
_STATEFUL: Final = re.compile(
    r"\b(group\s+by|order\s+by|sort\s+by|cluster\s+by|distribute\s+by|having|limit\s+\d"
    r"|select\s+distinct|join|(?:union|intersect|except|minus)\s+(?:all\s+|distinct\s+)?select)\b",
    re.IGNORECASE,
)
_FROM_INPUT: Final = re.compile(r"\bfrom\s+input\b", re.IGNORECASE)

_NAME = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[A-Za-z_]\w*))"
_PLAIN: Final = re.compile(rf"\s*{_NAME}\s*")
_ALIASED: Final = re.compile(rf".*[\s)]AS\s+{_NAME}\s*", re.IGNORECASE | re.DOTALL)


def read_expression(value: Any) -> str:
    """An expression over the columns of one row."""
    _bare(value)
    return str(value)


def read_query(value: Any) -> str:
    """A SELECT over the input that looks at each row alone."""
    bare = _bare(value)
    remedy = "write SELECT ... FROM input WHERE ..."
    if not bare.lstrip().lower().startswith("select"):
        raise Refused.because(f"{show(value)} is no SELECT", remedy)
    if not _FROM_INPUT.search(bare):
        raise Refused.because(f"{show(value)} does not read FROM input", remedy)
    if found := _STATEFUL.search(bare):
        raise Refused.because(
            f"{found.group()!r} looks at more than one row",
            "use a window or join step; a sql step is SELECT ... FROM input WHERE ...",
        )
    return str(value)


def selected_name(expression: str) -> tuple[str | None, bool]:
    """What a selected expression is called, None if only Spark can tell; and whether it is nothing
    but a column."""
    if found := _PLAIN.fullmatch(expression):
        return found["quoted"] or found["plain"], True
    if found := _ALIASED.fullmatch(expression):
        return found["quoted"] or found["plain"], False
    return None, False


def _bare(value: Any) -> str:
    """The text without what is quoted or commented, if nothing in it is to be refused."""
    if not isinstance(value, str):
        raise is_not(value, "an expression in SQL")
    if not value.strip():
        raise Refused.because("is empty")
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        raise Refused.because(f"{show(value)} has half a sign in it", "leave it out")
    rest = _QUOTED.sub(" ", value)
    if any(sign in rest for sign in "'\"`"):
        raise Refused.because(f"{show(value)} has a quote that is not closed", "close it")
    if rest.count("(") != rest.count(")"):
        raise Refused.because(f"{show(value)} has brackets that do not match", "close or drop one")
    if ";" in rest:
        raise Refused.because(f"{show(value)} has a semicolon", "write one expression without it")
    if found := _UNSTEADY.search(rest):
        name = next(filter(None, found.groups()))
        raise Refused.because(
            f"{name!r} differs between replicas",
            f"calculate from the columns alone; the time of a row is {STIME}",
        )
    if found := _AGGREGATE.search(rest) or _OVER.search(rest):
        raise Refused.because(
            f"{found.group()!r} aggregates rows", "put aggregates into a window step"
        )
    return rest


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

_NAME_PATTERN = r"`[^`]+`|[^\s`()]+"
_CALL: Final = re.compile(
    rf"\s*(?P<function>\w+)\s*\(\s*(?P<column>{_NAME_PATTERN})?\s*\)"
    rf"(?:\s*AS\s+(?P<name>{_NAME_PATTERN}))?\s*",
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
