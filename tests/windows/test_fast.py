"""The compiled window against the pure one: equal to the bit, and as careful with bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import (
    EmptyWindowError,
    InvalidArgumentError,
    InvalidValueError,
    PolicyNotMonotoneError,
    WindowDroppedError,
)
from holdfast.windows import kernels, monoids, policies
from holdfast.windows.amta import Amta
from holdfast.windows.fast import KERNELS, FastAmta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import Part, Policy

every_kernel = pytest.mark.parametrize("name", KERNELS)

POSITIVE = st.floats(0, exclude_min=True)
ORDERED = st.floats(allow_nan=False)
# Small integers make ties, cancellation and zeros of both signs likely.
TIES = st.integers(-3, 3).map(float) | st.just(-0.0)
VALUES = {"geometric_mean": POSITIVE | st.integers(1, 3).map(float)} | dict.fromkeys(
    ("min", "max", "range"), ORDERED | TIES
)
SIZES = st.integers(1, 40)


def values_for(name: str) -> st.SearchStrategy[float]:
    return VALUES.get(name, st.floats() | TIES)


def monoid_of(name: str) -> Monoid[Any, Any, Any]:
    return getattr(monoids, name)


def bits(state: Any) -> Any:
    """Something that is equal only for numbers with equal bits, any NaN being like any other."""
    if isinstance(state, tuple):
        return tuple(map(bits, state))
    return state if state is None or state is HOLE else float(state).hex()


def look(window: Amta[Any, Any, Any] | FastAmta[Any, Any]) -> dict[str, Any]:
    """All that can be seen of a window, by the bits."""
    return {
        "length": len(window),
        "position": window.position,
        "evicted": window.evicted,
        "result": bits(window.result()),
        "aggregate": bits(window.aggregate()),
        "leaves": list(map(bits, window.leaves())),
    }


def filled(name: str, count: int) -> FastAmta[Any, Any]:
    window = FastAmta(monoid_of(name))
    window.roll(np.sin(np.arange(count)) + 2, policies.last(max(count, 1)))
    return window


def watched(rule: Callable[[Part], bool], seen: list[Any], **options: Any) -> Policy:
    """A policy by both invariants that notes every part it is shown."""

    def window_invariant(window: Part) -> bool:
        seen.append((window.size, bits(window.value)))
        return rule(window)

    def eviction_invariant(*parts: Part) -> bool:
        seen.append([(part.size, bits(part.value)) for part in parts])
        return parts[0].size <= 2

    return Policy(window_invariant, eviction_invariant, **options)


def at_most(size: int) -> Callable[[Part], bool]:
    return lambda window: window.size <= size


def unlike(answer: Any) -> Callable[[Part], bool]:
    return lambda window: bool(bits(window.value) != bits(answer))


OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), st.none()),
    st.tuples(st.just("insert_many"), SIZES),
    st.tuples(st.just("evict"), st.none()),
    st.tuples(st.just("evict_many"), st.floats(0, 1)),
    st.tuples(st.just("roll"), st.tuples(st.integers(0, 40), SIZES)),
    st.tuples(st.just("slide"), SIZES),
    st.tuples(st.just("slide_by_value"), st.none()),
    st.tuples(st.just("fork"), st.none()),
    st.tuples(st.just("drop"), st.none()),
)


@every_kernel
@settings(max_examples=40)
@given(data=st.data())
def test_any_sequence_of_operations_equals_the_pure_window_to_the_bit(
    name: str, data: st.DataObject
) -> None:
    monoid, values = monoid_of(name), values_for(name)
    windows = [(Amta(monoid), FastAmta(monoid, capacity=1))]
    for operation, detail in data.draw(st.lists(OPERATIONS, min_size=5, max_size=50)):
        which = data.draw(st.integers(0, len(windows) - 1))
        pure, fast = windows[which]
        if operation in ("insert", "insert_many"):
            count = detail or 1
            for value in data.draw(st.lists(values, min_size=count, max_size=count)):
                pure.insert(value)
                fast.insert(value)
        elif operation in ("evict", "evict_many"):
            count = min(1, len(pure)) if detail is None else int(detail * len(pure))
            pure.evict(count)
            fast.evict(count)
        elif operation == "roll":
            count, size = detail
            rolled = data.draw(st.lists(values, min_size=count, max_size=count))
            expected = pure.roll(rolled, policies.last(size))
            answers = fast.roll(rolled, policies.last(size))
            assert_answers(answers, expected)
        elif operation.startswith("slide"):
            seen_by_pure: list[Any] = []
            seen_by_fast: list[Any] = []
            rule = at_most(detail) if operation == "slide" else unlike(pure.result())
            keep_newest = data.draw(st.booleans())
            evicted = pure.slide(watched(rule, seen_by_pure, keep_newest=keep_newest))
            assert fast.slide(watched(rule, seen_by_fast, keep_newest=keep_newest)) == evicted
            assert seen_by_fast == seen_by_pure
        elif operation == "fork":
            windows.append((pure.fork(), fast.fork()))
        elif len(windows) > 1:
            pure.drop()
            fast.drop()
            del windows[which]
        for pure, fast in windows:
            assert look(fast) == look(pure)


def assert_answers(answers: Any, expected: list[Any]) -> None:
    """Results in an array, with NaN where the pure window answers None."""
    assert isinstance(answers, np.ndarray)
    assert answers.dtype == np.float64
    assert list(map(bits, answers.tolist())) == [
        bits(math.nan if answer is None else answer) for answer in expected
    ]


@every_kernel
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9, 63, 64, 65])
def test_roll_equals_the_pure_one_at_sizes_around_powers_of_two(name: str, size: int) -> None:
    values = np.exp(np.random.default_rng(size).normal(0, 5, 300))
    pure, fast = Amta(monoid_of(name)), FastAmta(monoid_of(name))
    for part in np.split(values, [1, 1 + size, 200]):
        expected = pure.roll(part.tolist(), policies.last(size))
        assert_answers(fast.roll(part, policies.last(size)), expected)
    assert look(fast) == look(pure)


@pytest.mark.parametrize("first", range(6))
def test_a_window_emptied_anywhere_starts_again_there(first: int) -> None:
    pure, fast = Amta(monoids.sum), FastAmta(monoids.sum, capacity=2)
    for window in (pure, fast):
        window.roll([0.1] * first, policies.last(8))
        window.evict(first)
    assert fast.result() == 0
    for value in (0.1, 0.2, 0.3, 1e16, 0.4, 0.5, 0.6, 0.7, 0.8):
        pure.insert(value)
        fast.insert(value)
        assert look(fast) == look(pure)


@pytest.mark.parametrize("name", ["sum", "max", "variance"])
def test_bulk_eviction_equals_the_pure_one(name: str) -> None:
    values = np.random.default_rng(5).normal(size=3 * 4096).tolist()
    pure, fast = Amta(monoid_of(name)), FastAmta(monoid_of(name))
    for window in (pure, fast):
        window.roll(values, policies.last(4096 + 77))
    for count in (1, 2, 3, 64, 1000, 2047, 2048, 2049, 4096, 4096 + 76, 4096 + 77):
        base, other = pure.fork(), fast.fork()
        base.evict(count)
        other.evict(count)
        assert look(other) == look(base)
        base.insert(1.5)
        other.insert(1.5)
        assert look(other) == look(base)


def test_a_roll_that_begins_with_too_many_evicts_them_in_bulk() -> None:
    pure, fast = Amta(monoids.mean), FastAmta(monoids.mean)
    for window in (pure, fast):
        window.roll([0.1, 0.7, 0.3] * 40, policies.last(200))
    expected = pure.roll([0.9, 0.2], policies.last(7))
    assert_answers(fast.roll([0.9, 0.2], policies.last(7)), expected)
    assert look(fast) == look(pure)


@pytest.mark.parametrize("capacity", [1, 2, 3, 100])
def test_the_capacity_is_only_a_hint(capacity: int) -> None:
    values = np.linspace(-1, 1, 333)
    roomy, narrow = FastAmta(monoids.sum, capacity=1024), FastAmta(monoids.sum, capacity=capacity)
    for value in values.tolist():
        roomy.insert(value)
        narrow.insert(value)
        assert bits(narrow.aggregate()) == bits(roomy.aggregate())
    assert look(narrow) == look(roomy)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("sum", policies.hopping(10, 4)),
        ("sum", policies.value_bound(7.5)),
        ("sum", policies.value_bound(0.5, keep_newest=False)),
        ("max", policies.before_max()),
        ("mean", policies.last(lambda window: 3 + window.size % 5)),
        ("stddev", policies.hopping(5, 5)),
    ],
    ids=["hopping", "bound", "bound that may empty", "before max", "changing size", "None"],
)
def test_roll_by_any_policy_equals_the_pure_one(name: str, policy: Policy) -> None:
    values = np.random.default_rng(3).uniform(size=100)
    pure, fast = Amta(monoid_of(name)), FastAmta(monoid_of(name))
    assert_answers(fast.roll(values, policy), pure.roll(values.tolist(), policy))
    assert look(fast) == look(pure)


def test_none_is_nan_in_an_array_and_none_as_a_result() -> None:
    window = FastAmta(monoids.stddev)
    assert window.result() is None
    np.testing.assert_array_equal(window.roll([3.0], policies.last(2)), [math.nan])
    assert window.result() is None
    np.testing.assert_array_equal(window.roll([5.0], policies.last(2)), [math.sqrt(2)])


def test_an_empty_roll_changes_nothing() -> None:
    window = filled("sum", 9)
    before = look(window)
    assert window.roll([], policies.last(3)).tolist() == []
    assert look(window) == before


def test_compensation_survives_compilation() -> None:
    values = [1e16, 1.0, 1.0, 1.0, -1e16]
    assert FastAmta(monoids.sum).roll(values, policies.last(5))[-1] == 3.0


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.5, True],
        (value for value in (1.0, 2.5, 1.0)),
        [np.float32(1), np.float64(2.5), np.int64(1)],
        np.array([1.0, 2.5, 1.0], dtype=np.float32),
        np.array([1.0, 2.5, 1.0], dtype=np.float16),
        np.array([1.0, 2.5, 1.0], dtype=">f8"),
        np.array([1.0, 0.0, 2.5, 0.0, 1.0])[::2],
        np.frombuffer(np.array([1.0, 2.5, 1.0]).tobytes()),
        np.array([1.0, 2.5, 1.0], dtype=object),
    ],
    ids=[
        "mixed list",
        "generator",
        "NumPy scalars",
        "float32",
        "float16",
        "big endian",
        "strided",
        "read-only",
        "objects",
    ],
)
def test_roll_takes_numbers_in_any_form(values: Any) -> None:
    rolled = FastAmta(monoids.sum).roll(values, policies.last(2))
    assert rolled.tolist() == [1.0, 3.5, 3.5]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint64, np.bool_])
def test_roll_takes_arrays_of_exact_ints(dtype: Any) -> None:
    rolled = FastAmta(monoids.sum).roll(np.array([1, 0, 1], dtype=dtype), policies.last(2))
    assert rolled.tolist() == [1.0, 1.0, 1.0]


def test_ints_are_taken_up_to_where_floats_are_exact() -> None:
    window = FastAmta(monoids.first)
    for value in (2**53, -(2**53)):
        window.insert(value)
    assert list(window.leaves()) == [2.0**53, -(2.0**53)]


REFUSED = [
    *[(name, math.nan) for name in ("min", "max", "range", "geometric_mean")],
    ("geometric_mean", 0.0),
    ("geometric_mean", -1.0),
    *[("sum", value) for value in ("1", None, Decimal(1), 1j, 2**53 + 1, -(10**400))],
    ("count", "anything"),
    ("last", None),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_refused_value_changes_nothing(name: str, value: Any) -> None:
    window = filled(name, 21)
    before = look(window)
    with pytest.raises(InvalidValueError, match=name):
        window.insert(value)
    with pytest.raises(InvalidValueError, match=name):
        window.roll([1.0, 2.0, value, 3.0], policies.last(4))
    with pytest.raises(InvalidValueError, match=name):
        window.roll([1.0, value, 3.0], policies.hopping(4, 2))
    assert look(window) == before


@pytest.mark.parametrize(("name", "value"), REFUSED[:6])
def test_what_the_monoid_refuses_is_refused_in_its_words(name: str, value: float) -> None:
    with pytest.raises(InvalidValueError) as pure:
        Amta(monoid_of(name)).insert(value)
    with pytest.raises(InvalidValueError) as single:
        FastAmta(monoid_of(name)).insert(value)
    with pytest.raises(InvalidValueError) as rolled:
        FastAmta(monoid_of(name)).roll(np.array([1.0, value]), policies.last(2))
    assert str(single.value) == str(rolled.value) == str(pure.value)


@pytest.mark.parametrize("extreme", [2**53 + 1, -(2**53) - 1, np.iinfo(np.int64).min, 2**64 - 1])
def test_inexact_ints_are_refused_with_a_way_out(extreme: int) -> None:
    window = filled("sum", 3)
    dtype = np.uint64 if extreme > np.iinfo(np.int64).max else np.int64
    for values in ([extreme], np.array([extreme], dtype=dtype)):
        with pytest.raises(InvalidValueError, match="use Amta, where ints stay exact"):
            window.roll(values, policies.last(2))
    assert len(window) == 3


def test_values_must_be_one_column() -> None:
    with pytest.raises(InvalidArgumentError, match="2 dimensions"):
        FastAmta(monoids.sum).roll(np.ones((2, 2)), policies.last(2))


def test_evicting_what_is_not_there_changes_nothing() -> None:
    window = filled("max", 5)
    before = look(window)
    with pytest.raises(EmptyWindowError):
        window.evict(6)
    with pytest.raises(InvalidArgumentError):
        window.evict(-1)
    assert look(window) == before


def test_a_policy_that_raises_changes_nothing() -> None:
    window = filled("sum", 33)
    before = look(window)
    asked: list[Part] = []

    def fail_at_the_third(part: Part) -> bool:
        asked.append(part)
        if len(asked) == 3:
            raise ArithmeticError("no")
        return part.size <= 1

    with pytest.raises(ArithmeticError):
        window.slide(Policy(window_invariant=fail_at_the_third))
    assert look(window) == before


def test_debug_reports_a_policy_that_is_not_monotone() -> None:
    window = filled("sum", 12)
    with pytest.raises(PolicyNotMonotoneError):
        window.slide(Policy(window_invariant=lambda part: part.size == 5), debug=True)
    assert window.slide(policies.last(5), debug=True) == 7
    assert len(window) == 5


def test_a_fork_and_its_base_do_not_disturb_each_other() -> None:
    base = filled("sum", 20)
    before = look(base)
    fork = base.fork()
    fork.roll([1e9] * 50, policies.last(10))
    assert look(base) == before
    base.drop()
    assert fork.result() == 1e10


@pytest.mark.parametrize(
    "call",
    [
        lambda window: window.insert(1.0),
        lambda window: window.evict(),
        lambda window: window.result(),
        lambda window: window.aggregate(),
        lambda window: window.slide(policies.last(1)),
        lambda window: window.slide(policies.hopping(2, 1)),
        lambda window: window.roll([1.0], policies.last(1)),
        lambda window: window.leaves(),
        lambda window: window.fork(),
        lambda window: window.drop(),
    ],
)
def test_a_dropped_window_says_so(call: Callable[[FastAmta[Any, Any]], Any]) -> None:
    window = filled("sum", 4)
    window.drop()
    with pytest.raises(WindowDroppedError):
        call(window)


def test_every_monoid_that_names_a_kernel_has_one() -> None:
    named = {value.kernel for value in vars(monoids).values() if isinstance(value, Monoid)}
    assert named - {None} == set(KERNELS)


@pytest.mark.parametrize("monoid", [monoids.sum.over("price"), monoids.top_k(3), monoids.any])
def test_a_monoid_without_a_kernel_is_refused(monoid: Monoid[Any, Any, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="no compiled form"):
        FastAmta(monoid)


def test_a_capacity_below_one_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="capacity is 0"):
        FastAmta(monoids.sum, capacity=0)
    with pytest.raises(InvalidArgumentError, match=r"capacity: 2.5 is no integer"):
        FastAmta(monoids.sum, capacity=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1.0, math.nan, None])
def test_evicting_a_number_that_is_no_integer_is_refused_and_changes_nothing(count: Any) -> None:
    window = FastAmta(monoids.sum)
    window.insert(1.0)
    with pytest.raises(InvalidArgumentError, match=r"evict: .* is no integer"):
        window.evict(count)
    assert (len(window), window.result()) == (1, 1.0)


def test_without_a_place_for_the_cache_it_compiles_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compile_function = numba.njit

    def refuse_cache(function: Any, *, cache: bool = False, **options: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compile_function(function, **options)

    monkeypatch.setattr(numba, "njit", refuse_cache)
    assert kernels.compiled(lambda value: value + 1)(2) == 3
