"""Ctrl-C waits for what must be done whole."""

from __future__ import annotations

import signal

import pytest

from holdfast.demo.interrupts import postponed


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_asked_meanwhile_is_done_afterwards(ending: signal.Signals) -> None:
    before = signal.getsignal(ending)
    done = []
    with pytest.raises(KeyboardInterrupt), postponed():  # noqa: PT012
        signal.raise_signal(ending)
        done.append("all of it")
    assert done == ["all of it"]
    assert signal.getsignal(ending) is before


def test_without_an_interrupt_nothing_is_raised_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with postponed():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_within_goes_on_as_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), postponed():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        raise ValueError("mine")
