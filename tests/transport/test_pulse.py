"""Silence is told from looks."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.transport.links import LOOKS, Pulse, check_times


def test_silence() -> None:
    pulse = Pulse()
    assert all(pulse.look() for _ in range(LOOKS))
    assert not pulse.look()
    pulse.beat()
    assert pulse.look()


def test_no_sign_is_expected_of_one_who_rests() -> None:
    pulse = Pulse()
    with pulse.rest():
        assert all(pulse.look() for _ in range(10 * LOOKS))
    assert all(pulse.look() for _ in range(LOOKS))
    assert not pulse.look()


@pytest.mark.parametrize(("heartbeat", "silence"), [(1, 1.5), (0, 1), (-1, 1), (1, float("nan"))])
def test_times_that_make_no_sense_are_refused(heartbeat: float, silence: float) -> None:
    with pytest.raises(InvalidArgumentError, match="give at least two heartbeats"):
        check_times(heartbeat, silence)
