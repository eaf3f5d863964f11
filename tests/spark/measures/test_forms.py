"""Arrow values as NumPy columns and back, as they were."""

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import InvalidValueError
from holdfast.spark.measures.arrow_codecs import (
    Answers,
    Fixed,
    Floats,
    Nested,
    OrderCodes,
    PythonValues,
    Scaled,
    Texts,
    Truths,
)

WIDE = pa.struct(
    [
        pa.field("when", pa.timestamp("us", "America/New_York")),
        pa.field("spans", pa.map_(pa.string(), pa.list_(pa.field("element", pa.duration("us"))))),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("price", pa.decimal128(38, 10)),
        pa.field("raw", pa.binary()),
        pa.field("small", pa.float32()),
        pa.field("inner", pa.struct([("x", pa.float64()), ("y", pa.bool_())])),
    ]
)
WIDE_VALUES = [
    {
        "when": datetime(2020, 1, 1, tzinfo=UTC),
        "spans": [("k", [timedelta(1), None]), ("", None)],
        "day": date(1, 1, 1),
        "price": Decimal("-1234567890123456789012345678.0000000001"),
        "raw": b"\xff\x00",
        "small": 0.1,
        "inner": {"x": math.inf, "y": True},
    },
    {"when": None, "spans": [], "day": date(9999, 12, 31), "price": None, "raw": b"", "small": -0.0}
    | {"inner": {"x": None, "y": None}},
    {"when": None, "spans": None, "day": date(2020, 2, 29), "price": Decimal(0), "raw": None}
    | {"small": None, "inner": None},
]

CASES = [
    (Fixed(pa.int8()), [-128, 127, 0]),
    (Fixed(pa.int16()), [-(2**15), 2**15 - 1]),
    (Fixed(pa.int32()), [-(2**31), 2**31 - 1]),
    (Fixed(pa.int64()), [-(2**63), 2**63 - 1, 0]),
    (Fixed(pa.float32()), [0.5, -math.inf, 3.4028234663852886e38, 1e-45]),
    (Fixed(pa.float64()), [0.1, math.inf, 5e-324, -0.0]),
    (Fixed(pa.date32()), [date(1, 1, 1), date(9999, 12, 31)]),
    (Fixed(pa.timestamp("us", "UTC")), [datetime(2020, 1, 1, tzinfo=UTC)]),
    (Fixed(pa.timestamp("us")), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    (Fixed(pa.duration("us")), [timedelta(-1), timedelta(microseconds=1)]),
    (Truths(), [True, False, True]),
    (Scaled(pa.decimal128(18, 2)), [Decimal("-9999999999999999.99"), Decimal("0.01")]),
    (Scaled(pa.decimal128(38, 0)), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**63)]),
    (Scaled(pa.decimal128(38, 38)), [Decimal("1E-38"), Decimal("-1E-38")]),
    (Texts(pa.string()), ["", "a\0b", "日😀"]),
    (Texts(pa.binary()), [b"", b"\xff\x00"]),
    (OrderCodes(pa.float64()), [math.inf, -math.inf, 0.1, -5e-324]),
    (OrderCodes(pa.float32()), [0.5, -0.5]),
    (Nested(pa.list_(pa.int32())), [[], [1, None], [2]]),
    (Nested(WIDE), WIDE_VALUES),
    (Nested(pa.string()), ["", "ö"]),
]


def kind_of(form: Any) -> pa.DataType:
    return pa.bool_() if isinstance(form, Truths) else form.kind


@pytest.mark.parametrize(("form", "values"), CASES)
def test_what_is_read_is_written_as_it_was(form: Any, values: list) -> None:
    kind = kind_of(form)
    array = pa.array(values, kind)
    assert form.write(form.read(array), None).equals(array)
    # A slice that does not begin where its buffers do.
    padded = pa.concat_arrays([array, array, array])[len(array) : 2 * len(array)]
    assert padded.offset
    assert form.write(form.read(padded), None).equals(array)


@pytest.mark.parametrize(("form", "values"), CASES)
def test_nulls_are_written_where_rows_are_not_valid(form: Any, values: list) -> None:
    kind = kind_of(form)
    column = form.read(pa.array(values, kind))
    rng = random.Random(len(values))
    places = sorted(rng.sample(range(20), len(values)))
    valid = np.isin(np.arange(20), places)
    wanted = [values[places.index(i)] if i in places else None for i in range(20)]
    written = form.write(column, valid)
    written.validate(full=True)
    assert written.equals(pa.array(wanted, kind))
    assert form.write(column[:0], np.zeros(3, np.bool_)).equals(pa.nulls(3, kind))


@pytest.mark.parametrize(("form", "values"), CASES)
def test_no_rows(form: Any, values: list) -> None:
    nothing = pa.array([], kind_of(form))
    column = form.read(nothing)
    assert len(column) == 0
    assert form.write(column, None).equals(nothing)


def test_decimals_are_int64_where_they_fit() -> None:
    form = Scaled(pa.decimal128(38, 2))
    small = form.read(pa.array([Decimal("-1.50"), Decimal("92233720368547758.07")], form.kind))
    assert small.dtype == np.int64
    assert small.tolist() == [-150, 2**63 - 1]
    large = form.read(pa.array([Decimal("1.00"), Decimal("92233720368547758.08")], form.kind))
    assert large.tolist() == [100, 2**63]


def test_floats_in_order_have_codes_in_order() -> None:
    values = [-math.inf, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    form = OrderCodes(pa.float64())
    codes = form.read(pa.array(values, pa.float64()))
    assert (np.diff(codes.astype(object)) > 0).all()
    negative_nan = np.array([0xFFF8 << 48], np.uint64).view(np.float64)
    assert form.read(pa.array(negative_nan)) == codes[-1]
    assert repr(form.write(codes, None).to_pylist()) == repr(values)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, -128], pa.int8()),
        pa.array([2**60, 1], pa.int64()),
        pa.array([0.5, math.nan], pa.float32()),
        pa.array([Decimal("1.25"), Decimal("-0.01")], pa.decimal128(20, 2)),
    ],
)
def test_numbers_of_any_type_are_read_as_floats(array: pa.Array) -> None:
    read = Floats().read(array)
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, [float(value) for value in array.to_pylist()])


def test_equal_nested_values_have_equal_bytes() -> None:
    form = Nested(WIDE)
    array = pa.array([*WIDE_VALUES, *WIDE_VALUES], WIDE)
    read = form.read(array).tolist()
    assert read[:3] == read[3:]
    assert len(set(read)) == 3
    # The time zone in which a moment is shown is no part of it.
    elsewhere = WIDE.field(0).with_type(pa.timestamp("us", "UTC"))
    assert form.read(array.cast(pa.struct([elsewhere, *list(WIDE)[1:]]))).tolist() == read


def test_python_values() -> None:
    column = PythonValues().read(pa.array([[1], [2, 3]]))
    assert column.tolist() == [[1], [2, 3]]


def test_answers_of_another_type_are_refused_by_name() -> None:
    form = Answers(pa.float64(), "aggs: custom(v)", "double")
    assert form.write(np.array([1, None, 2.5], object), None).to_pylist() == [1.0, None, 2.5]
    with pytest.raises(InvalidValueError, match=r"^aggs: custom\(v\): an answer is no double"):
        form.write(np.array(["text"], object), None)
