"""Every kind of aggregate: the right answer, and the same bits however values are framed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edge.machine.aggregates import (
    KINDS,
    Aggregate,
    Partial,
    aggregate,
    decode_partial,
    numbers,
)
from holdfast.errors import InvalidArgumentError, InvalidValueError

ANY_FLOATS = st.lists(
    st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1e308, -1e308, 1e16, -1e16, 1.0]),
    max_size=80,
)
KEYS = st.sampled_from(["a", "b", "c", ""])


def bits(partial: Partial) -> bytes:
    """Distinguishes what `==` does not: 0.0 and -0.0; and not what it does: NaN and NaN."""
    return msgspec.msgpack.encode(partial)


def take(kind: Aggregate, values: Iterable[float], cuts: Iterable[int] = ()) -> Partial:
    """The partial of the values, given in frames that end at these places."""
    array = np.array(list(values), np.float64)
    partial = kind.empty()
    for frame in np.split(array, sorted(cuts)):
        partial = kind.add(partial, frame)
    return partial


def answer(kind: str, *values: float, **options: Any) -> Any:
    made = aggregate(kind, **options)
    return made.answer(take(made, values))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_framing_does_not_change_a_bit(kind: str, data: st.DataObject) -> None:
    made = aggregate(kind)
    values = data.draw(ANY_FLOATS)
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=6))
    whole = bits(take(made, values))
    assert bits(take(made, values, cuts)) == whole
    assert bits(take(made, values, range(len(values)))) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_long_streams_in_frames_of_any_size_give_the_same_bits(kind: str) -> None:
    rng = np.random.default_rng(7)
    made = aggregate(kind)
    values = rng.normal(1e6, 3, 5000) * rng.choice([1.0, 1e-9, 1e9], 5000)
    whole = bits(take(made, values))
    for frames in (2, 7, 300):
        assert bits(take(made, values, rng.integers(0, 5000, frames))) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_a_partial_that_was_sent_and_read_again_goes_on_as_if_it_had_not(kind: str) -> None:
    made = aggregate(kind)
    values = np.random.default_rng(1).normal(size=3000)
    travelled = made.empty()
    for frame in np.array_split(values, 23):
        wire = msgspec.msgpack.encode(made.add(travelled, frame))
        travelled = decode_partial(msgspec.msgpack.decode(wire))
    assert travelled == take(made, values)
    hash(travelled)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("count", [5, -3, 0], 3),
        ("sum", [5, -3], 2),
        ("sum", [1, 2, 3, 4, 5], 15),
        ("sum", [-1, -2], -3),
        ("sum", [0, 0], 0),
        ("sum", [1e16, 1, -1e16], 1),
        ("sum", [0.1] * 10, 1),
        ("sum", [1e308, 1e308, -1e308], math.inf),
        ("sum", [math.inf, 1], math.inf),
        ("mean", [0, 0, 6], 2),
        ("mean", [-5], -5),
        ("mean", [1e16, 1, -1e16], 1 / 3),
        ("max", [-3, -8], -3),
        ("min", [4, 9], 4),
        ("max", [-math.inf], -math.inf),
        ("range", [4, 9], 5),
        ("range", [-9, -4], 5),
        ("range", [math.inf], 0),
        ("range", [-1e308, 1e308], math.inf),
        ("variance", [2, 4, 4, 4, 5, 5, 7, 9], 32 / 7),
        ("variance", [0.1] * 30, 0),
        ("variance", [1e9, 1, 2], statistics.variance([1e9, 1, 2])),
        ("variance", [1], None),
        ("variance", [1e200, -1e200], math.inf),
        ("variance", [1e200, 1e200], 0),
        ("top_k", [3, -1, 3, 2], [3, 3, 2, -1]),
        ("distinct", [1, 1.0, 0.0, -0.0, math.inf], 3),
        ("quantiles", [3, 1, 2], [2]),
    ],
)
def test_known_answers(kind: str, values: list[float], expected: Any) -> None:
    assert answer(kind, *values) == expected


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
def test_infinities_of_both_signs_have_no_sum(kind: str) -> None:
    assert math.isnan(answer(kind, math.inf, -math.inf, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_of_nothing_every_answer_is_none(kind: str) -> None:
    made = aggregate(kind)
    assert made.answer(made.empty()) is None
    assert made.answer(made.add(made.empty(), np.array([]))) is None
    assert made.answer(made.combine(made.empty(), made.empty())) is None
    assert made.add_keyed({}, [], np.array([])) == {}


@pytest.mark.parametrize("kind", KINDS)
@given(values=ANY_FLOATS)
@settings(max_examples=15)
def test_nothing_is_neutral_when_combined(kind: str, values: list[float]) -> None:
    made = aggregate(kind)
    partial = take(made, values)
    assert bits(made.combine(partial, made.empty())) == bits(partial)
    assert bits(made.combine(made.empty(), partial)) == bits(partial)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 100])
def test_nan_is_refused_and_sensors_can_tell(kind: str, n: int) -> None:
    made = aggregate(kind)
    values = np.array([1.0] * n + [math.nan, math.inf])
    with pytest.raises(InvalidValueError, match="NaN"):
        made.add(made.empty(), values)
    with pytest.raises(InvalidValueError, match="NaN"):
        made.add_keyed({}, ["k"] * len(values), values)
    good = numbers(values)
    assert good.tolist() == [True] * n + [False, True]
    made.add(made.empty(), values[good])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(data=st.data())
def test_each_key_is_aggregated_on_its_own(kind: str, data: st.DataObject) -> None:
    made = aggregate(kind)
    rows = data.draw(st.lists(st.tuples(KEYS, st.floats(allow_nan=False)), max_size=80))
    cut = data.draw(st.integers(0, len(rows)))
    keyed: dict[Any, Partial] = {}
    for frame in (rows[:cut], rows[cut:]):
        before = dict(keyed)
        added = made.add_keyed(keyed, [key for key, _ in frame], np.array([v for _, v in frame]))
        assert keyed == before
        keyed = added
    for key in {key for key, _ in rows}:
        assert bits(keyed[key]) == bits(take(made, [v for k, v in rows if k == key]))
    assert keyed.keys() == {key for key, _ in rows}
    assert made.answer_keyed(keyed).keys() == keyed.keys()


def test_keys_may_be_arrays_and_are_combined_key_by_key() -> None:
    made = aggregate("sum")
    left = made.add_keyed({}, np.array(["a", "b", "a"]), np.array([1.0, 2.0, 3.0]))
    right = made.add_keyed({}, np.array(["b", "c"]), np.array([10.0, 20.0]))
    both = made.combine_keyed(left, right)
    assert made.answer_keyed(both) == {"a": 4.0, "b": 12.0, "c": 20.0}
    assert made.answer_keyed(left) == {"a": 4.0, "b": 2.0}
    with pytest.raises(InvalidArgumentError, match="2 keys for 1 values"):
        made.add_keyed({}, ["a", "b"], np.array([1.0]))


def test_arrays_of_other_types_and_strides_are_taken_as_floats() -> None:
    made = aggregate("mean")
    assert made.answer(made.add(made.empty(), np.arange(100)[::2])) == 49.0


def test_combine_all_goes_from_left_to_right() -> None:
    made = aggregate("mean")
    parts = [take(made, part) for part in ([1e16], [1], [], [-1e16])]
    assert made.answer(made.combine_all(parts)) == 1 / 3
    assert made.answer(made.combine_all([])) is None


def test_aggregates_are_equal_by_kind_and_options() -> None:
    assert aggregate("top_k", k=3) == aggregate("top_k", k=3)
    assert aggregate("top_k", k=3) != aggregate("top_k", k=4)
    assert aggregate("sum") != aggregate("mean")
    assert "k=" not in repr(aggregate("sum"))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("median", {}, "no kind 'median'; there are count"),
        ("sum", {"k": 3}, "has no option k"),
        ("top_k", {"k": 0}, "k is 0"),
        ("top_k", {"k": True}, "k is True"),
        ("distinct", {"lg_k": 3}, "from 4 to 21"),
        ("quantiles", {"k": 9}, "from 10 to 65535"),
        ("quantiles", {"shares": []}, "numbers from 0 to 1"),
        ("quantiles", {"shares": [1.5]}, "numbers from 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        aggregate(kind, **options)
