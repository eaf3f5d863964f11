"""States as bytes: equal to the bit when they come back, and never more than data."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from holdfast.errors import InvalidArgumentError, InvalidValueError, StoreCorruptError
from holdfast.windows import monoids as m
from holdfast.windows.monoid import HOLE
from holdfast.windows.shard.tables import Table
from holdfast.windows.stores.codec import StateCodec, seal, unseal
from holdfast.windows.values import ABOVE, BELOW

CODEC = StateCodec()


@dataclass(frozen=True)
class Money:
    amount: int
    currency: str


class Point(NamedTuple):
    x: float
    y: float


class Color(Enum):
    RED = "red"


class Sketch:
    """Reduces to a call of a function."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> Any:
        return restore_sketch, (self.data,)


def restore_sketch(data: bytes) -> Sketch:
    return Sketch(data)


class Attack:
    def __reduce__(self) -> Any:
        return os.system, ("echo attacked",)


def name(module: str, attribute: str) -> bytes:
    """The part of a pickle that asks for something by its name."""
    texts = (b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, attribute))
    return b"".join(texts) + b"\x93."


def again(value: Any, codec: StateCodec = CODEC) -> Any:
    return codec.decode(codec.encode(value))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.datetimes(timezones=st.none() | st.just(UTC))
    | st.timedeltas(),
    lambda values: (
        st.lists(values)
        | st.tuples(values, values)
        | st.dictionaries(st.text() | st.integers(), values)
        | st.frozensets(st.integers())
        | st.sets(st.text())
    ),
    max_leaves=10,
)


@given(plain)
def test_plain_values_come_back(value: Any) -> None:
    back = again(value)
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, set | frozenset | list | tuple | dict)


@given(arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_side=0)))
def test_arrays_and_their_scalars_come_back_to_the_bit(array: np.ndarray) -> None:
    for value in (array, np.asfortranarray(array), array[..., ::2], *array.ravel()[:1]):
        back = again(value)
        assert type(back) is type(value)
        # NumPy gives some arrays back in the machine's own byte order.
        assert back.dtype.newbyteorder("=") == value.dtype.newbyteorder("=")
        assert back.shape == value.shape
        assert back.astype(value.dtype).tobytes() == value.tobytes()


def test_structured_and_object_arrays_come_back() -> None:
    rows = np.array([(1, "a"), (2, "b")], dtype=[("n", "i4"), ("s", "U2")])
    assert again(rows).tolist() == rows.tolist()
    assert again(rows[0]).item() == (1, "a")
    assert again(np.array([None, (1, 2), "x"], dtype=object)).tolist() == [None, (1, 2), "x"]
    with pytest.raises(InvalidValueError):
        CODEC.encode(np.array([Money(1, "EUR")], dtype=object))


def test_what_is_one_object_stays_that_object() -> None:
    assert again((HOLE, 1))[0] is HOLE
    assert again([ABOVE, BELOW])[0] is ABOVE
    assert again(m.first.identity) is m.first.identity


def test_states_of_ready_made_windows_come_back() -> None:
    run = m.longest_increasing_run.lift(3)
    assert again(run) == run
    assert type(again(run)) is type(run)
    table = again(Table(np.arange(3), (np.array([0.1, 0.2, 0.3]),)))
    assert type(table) is Table
    assert table.ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "value",
    [
        Money(1, "EUR"),
        Point(1, 2),
        Color.RED,
        Sketch(b""),
        Attack(),
        OrderedDict(),
        print,
        lambda: None,
        Money,
        Ellipsis,
        np.float64,
        np.ma.masked_array([1]),
        (value for value in ()),
        object(),
        m.count,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_could_not_be_decoded_is_not_encoded(value: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"StateCodec\(allow="):
        CODEC.encode(value)
    with pytest.raises(InvalidValueError):
        CODEC.encode([({"deep": (1, value)},)])


def test_a_value_nested_too_deeply_is_refused() -> None:
    value: Any = ()
    for _ in range(100_000):
        value = (value,)
    with pytest.raises(InvalidValueError):
        CODEC.encode(value)


def test_classes_of_ones_own_are_named() -> None:
    codec = StateCodec(allow=[Money, Point, Color, Sketch, restore_sketch])
    value = [Money(1, "EUR"), Point(0.5, -0.0), Color.RED]
    assert again(value, codec) == value
    assert again(Sketch(b"x"), codec).data == b"x"
    with pytest.raises(InvalidValueError, match="restore_sketch"):
        StateCodec(allow=[Sketch]).encode(Sketch(b"x"))
    with pytest.raises(StoreCorruptError, match=r"asks for .*Money; name it in StateCodec"):
        CODEC.decode(codec.encode(value))
    with pytest.raises(InvalidArgumentError, match="classes and functions"):
        StateCodec(allow=["Money"])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Attack()),
        pickle.dumps(eval),
        b"choldfast.windows.monoids\nbuiltins.eval\n.",
        b"\x80\x04" + name("holdfast.windows.monoids", "builtins.eval"),
        b"\x80\x04" + name("holdfast.windows.monoids", "product"),
        b"\x80\x04" + name("holdfast.windows.amta", "Amta"),
        b"\x80\x04" + name("holdfast.windows.missing", "Amta"),
        b"\x80\x04" + name("holdfast.disk", "DiskStore"),
        b"",
        b"\x80\x05",
        b"garbage",
    ],
)
def test_nothing_but_data_is_decoded(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreCorruptError):
        CODEC.decode(data)
    assert "attacked" not in capfd.readouterr().out


@given(st.binary(min_size=1, max_size=40), st.data())
def test_a_flipped_bit_is_noticed(payload: bytes, data: st.DataObject) -> None:
    record = seal(payload)
    assert unseal(record) == payload
    bit = data.draw(st.integers(0, 8 * len(record) - 1))
    damaged = bytearray(record)
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreCorruptError):
        unseal(bytes(damaged))
    with pytest.raises(StoreCorruptError):
        unseal(record[: data.draw(st.integers(0, len(record) - 1))])


def test_times_and_exact_numbers_keep_their_kind() -> None:
    for value in (
        date(2024, 2, 29),
        datetime(2024, 2, 29, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 2, 29, tzinfo=ZoneInfo("UTC")),
        Decimal("1.10"),
        Fraction(1, 3),
        -0.0,
        1j,
    ):
        assert repr(again(value)) == repr(value)
