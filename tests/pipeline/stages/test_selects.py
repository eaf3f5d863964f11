"""SELECTs taken apart."""

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.stages.steps import take_apart


@pytest.mark.parametrize(
    ("text", "columns", "where"),
    [
        ("SELECT a FROM input", ("a",), None),
        ("  select a , b+1 AS c\nfrom `input`\twhere a > 1 ", ("a", "b+1 AS c"), "a > 1"),
        ("SELECT f(a, [1, 2]), g((b), c) FROM input", ("f(a, [1, 2])", "g((b), c)"), None),
        ("SELECT 'x, FROM input WHERE' AS t FROM input", ("'x, FROM input WHERE' AS t",), None),
        (r"SELECT 'it\'s, FROM', b FROM input", (r"'it\'s, FROM'", "b"), None),
        ("SELECT 'it''s, so', b FROM input", ("'it''s, so'", "b"), None),
        ("SELECT `a,``b` FROM input WHERE `where` = 1", ("`a,``b`",), "`where` = 1"),
        ("SELECT extract(year FROM d) AS y FROM input", ("extract(year FROM d) AS y",), None),
        ("SELECT extract(year FROM input) FROM input", ("extract(year FROM input)",), None),
        ("/* all, */ SELECT a, -- FROM\n b FROM input -- the end", ("a", "b"), None),
        ("SELECT a FROM input WHERE b > 0 -- positive", ("a",), "b > 0"),
        ("SELECT * FROM input WHERE x IN (1, 2)", ("*",), "x IN (1, 2)"),
    ],
)
def test_parts(text, columns, where):
    found = take_apart("here", text)
    assert (found.columns, found.where) == (columns, where)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a FROM input",
        "SELECT a",
        "SELECT a FROM other",
        "SELECT a FROM input AS i",
        "SELECT a FROM input, input",
        "SELECT a WHERE b FROM input",
        "SELECT a FROM input WHERE b WHERE c",
        "SELECT a FROM input UNION SELECT a FROM input",
        "WITH x AS (SELECT 1) SELECT a FROM input",
    ],
)
def test_what_is_no_plain_select_is_refused(text):
    with pytest.raises(InvalidArgumentError, match=r"^here: cannot be taken apart; write SELECT"):
        take_apart("here", text)
