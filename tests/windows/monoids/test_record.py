"""Products of monoids and the records they answer."""

from __future__ import annotations

import copy
import doctest
import pickle
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError, TimeOrderError
from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.monoids import record
from holdfast.windows.monoids.record import Record, product
from holdfast.windows.policies import last, time_span


def watch(lowered: list[str], name: str) -> Monoid[Any, Any, Any]:
    """A sum that notes its name whenever it is lowered."""

    def lower(state: int) -> int:
        lowered.append(name)
        return state

    return Monoid(name, 0, lambda value: value, lambda older, newer: older + newer, lower)


def make_record(**answers: int) -> Record:
    parts = product(**{name: m.last.over(name) for name in answers})
    return parts.lower(parts.lift(answers))


def test_all_dimensions_are_aggregated_over_the_same_updates():
    window = Amta(product(n=m.count, total=m.sum, high=m.max))
    results = window.roll([3, 1, 2, 5], last(2))
    assert results[-1] == {"n": 2, "total": 7, "high": 5}
    assert [result.high for result in results] == [3, 3, 2, 5]


def test_an_empty_product_window_answers_for_each_dimension():
    assert Amta(product(n=m.count, low=m.min)).result() == {"n": 0, "low": None}


def test_products_nest():
    window = Amta(product(n=m.count, price=product(low=m.min, high=m.max).over("price")))
    results = window.roll([{"price": 3}, {"price": 1}], last(9))
    assert results[-1].price.low == 1
    assert results[-1] == {"n": 2, "price": {"low": 1, "high": 3}}


def test_fifty_dimensions_agree_with_fifty_windows():
    powers = {f"p{power}": m.sum.over(lambda value, k=power: value**k) for power in range(50)}
    together = Amta(product(**powers))
    values = [1, 2, 3, 4, 5]
    for result in together.roll(values, last(3))[-1:]:
        assert result == {
            name: Amta(power).roll(values, last(3))[-1] for name, power in powers.items()
        }


def test_a_field_is_lowered_when_it_is_read_and_once():
    lowered: list[str] = []
    parts = product(a=watch(lowered, "a"), b=watch(lowered, "b"))
    answer = parts.lower(parts.lift(1))
    assert lowered == []
    assert (answer.b, answer["b"], answer.b) == (1, 1, 1)
    assert lowered == ["b"]


def test_a_policy_that_reads_one_field_lowers_no_other():
    lowered: list[str] = []
    window = Amta(product(time=m.time, other=watch(lowered, "other")))
    for moment in range(20):
        window.insert(moment)
        window.slide(time_span(5))
    assert len(window) == 5
    assert lowered == []


def test_dimensions_keep_their_check_of_order():
    window = Amta(product(n=m.count, inner=product(time=m.time.over("at"))))
    window.insert({"at": 5})
    with pytest.raises(TimeOrderError):
        window.insert({"at": 4})
    assert window.result() == {"n": 1, "inner": {"time": 5}}


def test_without_ordered_dimensions_there_is_nothing_to_check():
    assert product(n=m.count).check_order is None


def test_fields_are_read_as_attributes_and_as_items():
    answer = make_record(a=1, b=2)
    assert (answer.a, answer["b"]) == (1, 2)
    with pytest.raises(AttributeError, match="no field 'c'"):
        _ = answer.c
    with pytest.raises(KeyError):
        answer["c"]


def test_a_record_is_a_mapping_in_the_order_of_its_dimensions():
    answer = make_record(b=2, a=1)
    assert list(answer) == list(answer.keys()) == ["b", "a"]
    assert dict(answer) == {"b": 2, "a": 1}
    assert {**answer} == {"a": 1, "b": 2}
    assert len(answer) == 2
    assert "a" in answer
    assert "c" not in answer


def test_a_record_equals_what_has_the_same_fields():
    answer = make_record(a=1, b=2)
    assert answer == make_record(b=2, a=1)
    assert answer == {"a": 1, "b": 2}
    assert answer != make_record(a=1, b=3)
    assert answer != {"a": 1}
    assert answer != [("a", 1), ("b", 2)]


def test_a_record_shows_its_fields():
    answer = make_record(a=1, b=2)
    assert repr(answer) == "Record(a=1, b=2)"
    assert {"a", "b", "keys"} <= set(dir(answer))


def test_a_record_cannot_be_changed():
    answer = make_record(a=1)
    with pytest.raises(AttributeError):
        answer.a = 2
    with pytest.raises(AttributeError):
        answer.b = 2
    with pytest.raises(AttributeError):
        del answer.a
    with pytest.raises(TypeError):
        answer["a"] = 2
    with pytest.raises(TypeError):
        hash(answer)
    assert answer == {"a": 1}


def test_a_record_survives_pickling_and_copying():
    parts = product(a=m.sum, b=Monoid("own", 0, int, lambda x, y: x + y, lambda state: -state))
    answer = parts.lower(parts.lift(1))
    for twin in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
        assert twin == {"a": 1, "b": -1}
        assert twin.b == -1


def test_a_product_has_at_least_one_dimension():
    with pytest.raises(InvalidArgumentError, match="at least one dimension"):
        product()


@pytest.mark.parametrize("name", ["two words", "1st", "", "_hidden", "class", "keys"])
def test_a_dimension_has_a_name_that_can_be_read(name: str):
    with pytest.raises(InvalidArgumentError, match="cannot be read as an attribute"):
        product(**{name: m.count})


def test_a_dimension_is_a_monoid():
    with pytest.raises(InvalidArgumentError, match=r"best is .* call it first"):
        product(best=m.top_k)


def test_the_examples_in_the_documentation_hold():
    assert doctest.testmod(record) == doctest.TestResults(failed=0, attempted=3)
