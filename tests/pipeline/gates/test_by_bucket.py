"""Values by bucket behave as a sorted dictionary does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.gates.waiting import ByBucket

NUMBER = st.integers(0, 30)
STEP = st.one_of(
    st.tuples(st.just("set"), NUMBER, NUMBER),
    st.tuples(st.just("pop"), NUMBER, NUMBER),
    st.tuples(st.just("drop"), NUMBER, NUMBER),
)


@given(st.lists(STEP, max_size=60))
def test_it_is_a_sorted_dictionary(steps: list[tuple[str, int, int]]) -> None:
    held: ByBucket[int] = ByBucket()
    model: dict[int, int] = {}
    for what, first, second in steps:
        if what == "set":
            held[first] = model[first] = second
        else:
            start, stop = (first, second) if what == "pop" else (-1, first)
            gone = [(n, model.pop(n)) for n in sorted(model) if start <= n < stop]
            if what == "pop":
                assert held.pop(first, second) == gone
            else:
                assert held.drop_before(first) == [value for _, value in gone]
        assert len(held) == len(model)
        assert held.last == max(model, default=None)
        assert list(held.numbers(first, second)) == [
            n for n in sorted(model) if first <= n < second
        ]
        assert held.get(first) == model.get(first)
        above = min((n for n in model if n > first), default=None)
        assert held.after(first) == (None if above is None else model[above])
