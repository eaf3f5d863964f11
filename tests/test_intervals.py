"""Interval strings, long and short. `tests/spark/test_intervals.py` compares them with Spark."""

import time
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval

SECOND = 1_000_000
UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 604_800 * SECOND,
}


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("1h", 3600 * SECOND),
        ("500ms", 500_000),
        ("90s", 90 * SECOND),
        ("1d", 86_400 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1h 30m", 5400 * SECOND),
        ("250us", 250),
        ("5min", 300 * SECOND),
        ("2w", 2 * 604_800 * SECOND),
        ("0.5s", 500_000),
        ("-15m", -900 * SECOND),
        ("1 d", 86_400 * SECOND),
        ("1hour", 3600 * SECOND),
        ("0s", 0),
    ],
)
def test_short_forms(text: str, microseconds: int) -> None:
    assert parse_interval("size", text) == microseconds


@given(st.lists(st.tuples(st.integers(0, 10**5), st.sampled_from(list(UNITS))), min_size=1))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    wanted = sum(number * UNITS[unit] for number, unit in parts)
    assert parse_interval("size", text) == wanted


@given(st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6)))
def test_timedeltas(span: timedelta) -> None:
    assert parse_interval("size", span) == span // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("h", "cannot be read"),
        ("10", "cannot be read"),
        ("1h,30m", "cannot be read"),
        ("1 hour ago", "cannot be read"),
        ("interval", "cannot be read"),
        ("interval1 hour", "cannot be read"),
        ("1e3 s", "'e'"),
        ("\u0661 hour", "cannot be read"),
        ("1 fortnight", "'fortnight'"),
        ("1H", "'H'"),
        ("1 month", "months or years"),
        ("2 years", "months or years"),
        ("1M", "months or years"),
        ("1 day 1 month", "months or years"),
        ("1.5 hours", "fraction"),
        ("1.1234567 seconds", "fraction"),
        ("300000000w", "64 bits"),
        ("9" * 5000 + "s", "64 bits"),
        (timedelta.max, "64 bits"),
        (3600, "is no interval"),
        (1.5, "is no interval"),
        (None, "is no interval"),
        (b"1h", "is no interval"),
    ],
)
def test_what_is_no_interval_is_refused_by_name(text: object, says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^slide: .*{says}"):
        parse_interval("slide", text)


def test_a_long_text_that_is_none_is_refused_soon() -> None:
    started = time.perf_counter()
    with pytest.raises(InvalidArgumentError):
        parse_interval("size", "1h   " * 5_000 + "!")
    assert time.perf_counter() - started < 5
