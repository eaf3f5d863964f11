"""Spans of time as users write them: Spark's interval strings and short forms.

Used wherever a public call takes a size, a slide, an offset or a time to live. Never asks a clock.
"""

from __future__ import annotations

import re
from datetime import timedelta
from reprlib import repr as shorten
from typing import Any, Final

from holdfast.errors import InvalidArgumentError

__all__ = ["parse_interval"]

_UNITS: Final = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""In any case, with or without an s, as Spark reads them."""

_SHORT: Final = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}
"""In lower case only: others write months as M."""

_UNEVEN: Final = {"month", "year", "mo", "y", "M"}

_TERM = r"(?:([+-])\s*)?([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]+)\s*"
_PART: Final = re.compile(_TERM)
_WHOLE: Final = re.compile(rf"(?:interval\s+)?(?P<parts>(?:{_TERM})+)", re.IGNORECASE)

_LARGEST: Final = 2**63 - 1
_DIGITS: Final = len(str(_LARGEST))

_FORMS = "write it as Spark does, '1 hour 30 minutes', or short, '1h30m', '90s', '500ms'"


def parse_interval(what: str, text: str | timedelta) -> int:
    """The microseconds in a span such as "1 hour 30 minutes", "1h30m" or a timedelta.

    `what` names the argument in errors. Signs add up as in Spark: "1 day -1 hour" is 23 hours.
    """
    if isinstance(text, timedelta):
        return _bounded(what, text, text // timedelta(microseconds=1))
    if not isinstance(text, str):
        raise InvalidArgumentError(f"{what}: {shorten(text)} is no interval; {_FORMS}")
    whole = _WHOLE.fullmatch(text.strip())
    if whole is None:
        raise InvalidArgumentError(f"{what}: {shorten(text)} cannot be read; {_FORMS}")
    parts = _PART.findall(whole["parts"])
    return _bounded(what, text, sum(_microseconds(what, text, *part) for part in parts))


def _microseconds(what: str, text: str, sign: str, number: str, word: str) -> int:
    unit = _unit(what, text, word)
    digits, _, fraction = number.partition(".")
    # Spark knows fractions of seconds only.
    if fraction and (unit != "second" or len(fraction) > 6):
        raise InvalidArgumentError(
            f"{what}: {shorten(text)} has a fraction; only seconds may have one, down to the "
            "microsecond. Write '1 hour 30 minutes' for '1.5 hours'"
        )
    digits = digits.lstrip("0")
    if len(digits) > _DIGITS:
        raise _too_much(what, text)
    amount = int(digits or "0") * _UNITS[unit]
    if fraction:
        amount += int(fraction.ljust(6, "0"))
    return -amount if sign == "-" else amount


def _unit(what: str, text: str, word: str) -> str:
    if word in _SHORT:
        return _SHORT[word]
    name = word.lower().removesuffix("s")
    if name in _UNITS:
        return name
    if word in _UNEVEN or name in _UNEVEN:
        raise InvalidArgumentError(
            f"{what}: {shorten(text)} has months or years, which differ in length; give days or "
            "weeks"
        )
    raise InvalidArgumentError(
        f"{what}: {shorten(text)} has the unit {word!r}; use one of {', '.join(_UNITS)} or short "
        f"{', '.join(_SHORT)}"
    )


def _bounded(what: str, text: Any, amount: int) -> int:
    if abs(amount) > _LARGEST:
        raise _too_much(what, text)
    return amount


def _too_much(what: str, text: Any) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{what}: {shorten(text)} is more microseconds than fit into 64 bits; give less"
    )
