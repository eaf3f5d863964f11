from __future__ import annotations

from typing import Any

import pytest

from holdfast.config.settings import Refused
from holdfast.pipeline.topology.expressions import read_expression, read_query, selected_name


def told(read: Any, text: Any) -> str:
    with pytest.raises(Refused) as caught:
        read(text)
    (fault,) = caught.value.faults
    return f"{fault.message}; {fault.remedy}"


@pytest.mark.parametrize(
    "text",
    [
        "value IS NOT NULL",
        "abs(value) * (1 + offset) > 3",
        "name = 'rand()' AND other = \"now(\"",
        "`current_date` > 5",
        "note LIKE '%;%' -- a comment; with (",
        "a /* ( ; ' */ > 1",
        "it = 'O\\'Brien' OR it = 'O''Brien'",
        "summary > 1 AND counted AND now > 1 AND minimum(a)",
        "unix_timestamp(measured_at) > 5",
        "a IS DISTINCT FROM b",
        "greatest(a, b)",
    ],
)
def test_expressions_over_one_row(text: str) -> None:
    assert read_expression(text) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        (5, "5 is not an expression"),
        ("a > 'b", "a quote that is not closed"),
        ("a > (b", "brackets"),
        ("a; DROP TABLE b", "semicolon"),
        ("rand() < 0.5", "'rand' differs between replicas"),
        ("a > NOW ()", "'NOW' differs"),
        ("t < current_timestamp", "'current_timestamp' differs"),
        ("t < unix_timestamp( )", "'unix_timestamp' differs"),
        ("uuid()", "'uuid' differs"),
        ("sum(value)", "aggregates rows; put aggregates into a window step"),
        ("COUNT (*)", "aggregates rows"),
        ("row_number() OVER (ORDER BY a)", "aggregates rows"),
        ("a = '\ud800'", "half a sign"),
    ],
)
def test_expressions_that_are_refused(text: Any, says: str) -> None:
    assert says in told(read_expression, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM input",
        "select a, explode(b) AS c\nfrom Input where a > 1",
        "/* first */ SELECT * EXCEPT (a) FROM input",
        "SELECT 'GROUP BY' AS a, `limit` FROM input",
        "SELECT a FROM input WHERE a IS DISTINCT FROM b",
    ],
)
def test_queries_over_each_row(text: str) -> None:
    assert read_query(text) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("DELETE FROM input", "is no SELECT"),
        ("SELECT * FROM readings", "does not read FROM input"),
        ("SELECT a FROM input GROUP BY a", "'GROUP BY' looks at more than one row"),
        ("SELECT a FROM input order  by a", "looks at more than one row"),
        ("SELECT DISTINCT a FROM input", "looks at more than one row"),
        ("SELECT a FROM input LIMIT 5", "looks at more than one row"),
        ("SELECT a FROM input JOIN input b", "looks at more than one row"),
        ("SELECT a FROM input UNION ALL SELECT b FROM input", "looks at more than one row"),
        ("SELECT max(a) FROM input", "aggregates rows"),
        ("SELECT rand() FROM input", "differs between replicas"),
    ],
)
def test_queries_that_are_refused(text: str, says: str) -> None:
    assert says in told(read_query, text)


@pytest.mark.parametrize(
    ("text", "name", "plain"),
    [
        ("sensor", "sensor", True),
        (" `a b` ", "a b", True),
        ("value * 2 AS twice", "twice", False),
        ("f(a)as `b c`", "b c", False),
        ("CAST(a AS int) AS b", "b", False),
        ("CAST(a AS int)", None, False),
        ("value * 2", None, False),
        ("*", None, False),
        ("a.b", None, False),
    ],
)
def test_what_a_selected_expression_is_called(text: str, name: str | None, plain: bool) -> None:
    assert selected_name(text) == (name, plain)
