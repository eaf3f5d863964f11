"""Expressions mean what they say, and no tenant can write one that takes the system down."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tenants.machine.documents import (
    Aggregate,
    Channel,
    DocumentError,
    Field,
    Input,
    Stream,
)
from holdfast.tenants.machine.settling import ExpressionError
from holdfast.tenants.process.expressions import compile_stream

TYPES = {
    "t": {
        "c": "number",
        "n": "integer",
        "s": "string",
        "b": "boolean",
        "l": "number[]",
        "w": "string[]",
    }
}
LARGEST = {
    "t.c": 1.5,
    "t.n": 3,
    "t.s": "a" * 1024,
    "t.b": True,
    "t.l": [float(n) for n in range(256)],
    "t.w": ["a" * 1024] * 256,
    "t._present": True,
    "t._time": 5,
    "t._key": "",
    "t._stream": "x/y/z",
}


def stream_of(source: str, kind: str = "number", **more: Any) -> Stream:
    return Stream({"v": Channel(kind, source)}, inputs={"t": Input("a/b/c")}, **more)


def run(source: str, kind: str = "number", **scope: Any) -> Any:
    return compile_stream(stream_of(source, kind), TYPES).values({**LARGEST, **scope})["v"]


@pytest.mark.parametrize(
    ("source", "kind", "value"),
    [
        ("t.c * 2.0 + double(t.n)", "number", 6.0),
        ("pow(t.c, 2.0)", "number", 2.25),
        ("t.n * 2", "integer", 6),
        ("t._present ? t._time : 0", "integer", 5),
        ("t.l.filter(x, x > 253.0)", "number[]", [254.0, 255.0]),
        ("t.s.startsWith('aa') && t.b", "boolean", True),
        ("'k' + string(t.n)", "string", "k3"),
        ("t.l.exists(x, x == 7.0) ? 1.0 : 0.0", "number", 1.0),
        ("timestamp('2026-01-01T05:00:00Z').getHours()", "integer", 5),
    ],
)
def test_they_mean_what_they_say(source: str, kind: str, value: Any) -> None:
    assert run(source, kind) == value


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("t.c * 2", "numbers are written 2.0"),
        ("t.nope", "INPUT.CHANNEL"),
        ("t.n", "gives integer, not number"),
        ("dyn(t.c)", "not number"),
        ("has(t.c) ? 1.0 : 2.0", "_present"),
        ("__import__('os').system('true')", "undeclared reference"),
        ("(" * 4000, "divide it"),
        ("((", "channels.v"),
        ("open('/etc/passwd')", "undeclared reference"),
        ("google.protobuf.Value{number_value: 1.0}.number_value", "channels.v"),
    ],
)
def test_what_is_wrong_is_told(source: str, said: str) -> None:
    with pytest.raises(DocumentError, match=r"channels\.v") as caught:
        run(source)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "[t.s]" + ".map(x, x+x+x+x)" * 8 + ".size() > 0",
        "[t.l]" + ".map(x, x+x+x+x)" * 9 + "[0].size() > 0",
        "t.l.all(a, t.l.all(b, t.l.all(c, true)))",
        "t.w.map(x, t.w.map(y, x + y)).size() > 0",
        "t.w.exists(x, t.w.exists(y, x.contains(y)))",
        "t.w.exists(x, x.matches(t.s))",
        "[t.w]" + ".map(x, x+x)" * 6 + "[0] == " + "[t.w]" + ".map(x, x+x)" * 6 + "[0]",
    ],
)
def test_bombs_are_refused_before_they_are_run(source: str) -> None:
    with pytest.raises(DocumentError, match=r"may (take|make)"):
        run(source, "boolean")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1.0 / (t.l[999])", "index"),
        ("double(t.n / (t.n - 3))", "divide by zero"),
        ("pow(-1.0, 0.5)", "math domain error"),
        ("double('x')", "convert"),
        ("exp(10000.0)", "range"),
    ],
)
def test_what_fails_is_an_error_of_the_stream(source: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=r"channels\.v") as caught:
        run(source)
    assert said in str(caught.value).lower()


def test_an_input_that_has_brought_nothing_is_an_error_only_where_it_is_read() -> None:
    compiled = compile_stream(stream_of("t._present ? t.c : 0.0"), TYPES)
    assert compiled.values({"t._present": False}) == {"v": 0.0}
    with pytest.raises(ExpressionError):
        compile_stream(stream_of("t.c"), TYPES).values({"t._present": False})


def test_aggregates_have_types() -> None:
    fields = {"mean": Field("mean", "t.n"), "top": Field("max", "t.s"), "n": Field("count")}
    stream = stream_of(
        "window.mean + double(window.n)", aggregate=Aggregate("t", fields, size="1m")
    )
    compiled = compile_stream(stream, TYPES)
    assert compiled.values({"window.mean": 1.5, "window.n": 2}) == {"v": 3.5}
    assert compiled.lift("mean", {"t.n": 4}) == 4
    bad = stream_of("window.x", aggregate=Aggregate("t", {"x": Field("mean", "t.s")}, size="1m"))
    with pytest.raises(DocumentError, match="no mean of string"):
        compile_stream(bad, TYPES)


ATOMS = [
    "t.s",
    "t.w",
    "t.l",
    "t.c",
    "t.n",
    "'abc'",
    "1.0",
    "[t.s]",
    "[t.l]",
    "[t.w, t.w]",
    "x",
    "y",
]
GROW = [
    "({0} + {1})",
    "[{0}, {1}]",
    "{0}.map(x, {1})",
    "{0}.map(y, {1})",
    "{0}.filter(x, {1} == {1})",
    "[{0}].map(x, x + x)",
    "{0}[0]",
    "(t.b ? {0} : {1})",
    "string({0} == {1})",
]
EXPRESSIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.tuples(st.sampled_from(GROW), inner, inner).map(
        lambda made: made[0].format(made[1], made[2])
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
@settings(max_examples=150)
def test_no_expression_that_is_taken_takes_long(source: str) -> None:
    """Over the largest values there can be."""
    try:
        compiled = compile_stream(stream_of(f"[{source}].size()", "integer"), TYPES)
    except DocumentError:
        return
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    compiled.values(LARGEST)
    assert time.process_time() - began < 2.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
