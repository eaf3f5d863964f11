"""Windows as a user asks for them."""

from datetime import timedelta

import pytest

import holdfast
from holdfast.errors import InvalidArgumentError
from holdfast.time_windows import TimeWindow


def test_windows_are_counted_in_microseconds_and_named_after_their_spans():
    assert holdfast.sliding("1h", "1s") == TimeWindow(3600 * 10**6, 10**6, 0, "1h every 1s")
    assert holdfast.tumbling(timedelta(days=1), offset="1h", name="day") == TimeWindow(
        86400 * 10**6, 86400 * 10**6, 3600 * 10**6, "day"
    )
    assert holdfast.tumbling("1 day").name == "1 day"
    assert holdfast.tumbling("1 day").tumbles
    assert not holdfast.sliding("1h", "30m").tumbles


@pytest.mark.parametrize(
    ("size", "slide", "message"),
    [
        ("1s", "1m", "slide: 1m is more than size, 1s"),
        ("0s", "1s", "size: 0s is not above zero"),
        ("1s", "-1s", "slide: -1s is not above zero"),
        ("1 month", "1s", "size: .*month"),
    ],
)
def test_windows_that_make_no_sense_are_refused(size, slide, message):
    with pytest.raises(InvalidArgumentError, match=message):
        holdfast.sliding(size, slide)
