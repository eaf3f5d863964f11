"""Expressions over many updates give the bits that they give over one after the other."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from holdfast.tenants.machine.documents import Channel, Input, Stream
from holdfast.tenants.machine.settling import ExpressionError
from holdfast.tenants.process.expressions import compile_stream

TYPES = {"a": {"x": "number", "y": "number", "f": "boolean"}}
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e308, -1e308, 5e-324, 2.0**53, 0.5, 3.0]),
)
constants = st.sampled_from(["0.0", "1.0", "-1.5", "0.1", "1e300", "3.0"])
numbers = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["a.x", "a.y"]),
        constants,
        st.builds("({} {} {})".format, numbers, st.sampled_from("+-*/"), numbers),
        st.builds("(-{})".format, numbers),
        st.builds("({} ? {} : {})".format, booleans, numbers, numbers),
        st.builds("{}({})".format, st.sampled_from(["sqrt", "abs", "floor", "exp"]), numbers),
        st.builds(
            "{}({}, {})".format, st.sampled_from(["min", "max", "pow", "atan2"]), numbers, numbers
        ),
    )
)
booleans = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["a.f", "true", "false"]),
        st.builds(
            "({} {} {})".format,
            numbers,
            st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
            numbers,
        ),
        st.builds(
            "({} {} {})".format, booleans, st.sampled_from(["&&", "||", "==", "!="]), booleans
        ),
        st.builds("(!{})".format, booleans),
    )
)


def bits(value: Any) -> Any:
    if type(value) is bool:
        return value
    assert type(value) is float
    return "nan" if math.isnan(value) else struct.pack("<d", value)


@given(
    st.one_of(numbers.map(lambda e: ("number", e)), booleans.map(lambda e: ("boolean", e))),
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=8),
)
@settings(max_examples=400)
def test_the_same_bits(expression: tuple[str, str], rows: list[tuple[float, float, bool]]) -> None:
    kind, said = expression
    stream = Stream({"n": Channel(kind, said)}, inputs={"a": Input("s")})  # type: ignore[arg-type]
    compiled = compile_stream(stream, TYPES)
    assert compiled._channels["n"].vector is not None
    columns = dict(zip("xyf", map(list, zip(*rows, strict=True)), strict=True))
    try:
        found = compiled.columns({"a": columns}, len(rows))["n"]
    except Exception:
        event("left to the package")
        return
    event("at once")
    wanted = []
    for x, y, f in rows:
        try:
            wanted.append(compiled.values({"a.x": x, "a.y": y, "a.f": f})["n"])
        except ExpressionError:
            wanted.append(None)
    assert None not in wanted
    assert list(map(bits, found)) == list(map(bits, wanted))


def test_what_is_not_known_is_left_to_the_package() -> None:
    types = {"a": {"x": "number", "i": "integer", "s": "string"}}
    for said in ("double(a.i) + a.x", "double(size(a.s))", "[a.x, 1.0][0]", "double(a._time)"):
        stream = Stream({"n": Channel("number", said)}, inputs={"a": Input("s")})
        assert compile_stream(stream, types)._channels["n"].vector is None
    integers = Stream({"n": Channel("integer", "a.i + 1")}, inputs={"a": Input("s")})
    compiled = compile_stream(integers, types)
    assert compiled.columns({"a": {"i": [1, 2], "x": [0.0] * 2}}, 2) == {"n": [2, 3]}
