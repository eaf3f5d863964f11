"""SQL in a topology, looked at without Spark: what could never run the same on all replicas, or
would need state, is refused by name. Spark itself finds the rest when the stage is compiled.
"""

from __future__ import annotations

import re
from typing import Any, Final

from holdfast.topology.problems import show
from holdfast.topology.settings import Refused, is_not
from holdfast.tuples import STIME

__all__ = ["read_expression", "read_query", "selected_name"]

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
