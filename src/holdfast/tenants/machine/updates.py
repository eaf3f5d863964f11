"""Sensor updates, failures, and inputs that fall behind."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidArgumentError

LONGEST_STRING: Final = 1024
LONGEST_ARRAY: Final = 256
LARGEST_INTEGER: Final = 2**63 - 1

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "number": (float, int),
    "integer": (int,),
    "boolean": (bool,),
    "string": (str,),
}


class Update(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of a stream: known by its stream and offset."""

    stream: str
    offset: int
    timestamp: int
    """In microseconds of the clock of the source; of a result, the newest one of its inputs."""
    position: int
    """Of the log entry that it came of."""
    values: dict[str, Any]
    key: str = ""
    """Its partition."""
    inputs: dict[str, tuple[str, int]] = {}
    """Where it comes from: the stream and offset of each input. With theirs, the whole lineage."""
    owners: tuple[str, ...] = ()
    """The tenants whose data are in it."""


class Failure(msgspec.Struct, frozen=True):
    """A result that could not be made."""

    stream: str
    position: int
    number: int
    """Among those of this stream and position."""
    timestamp: int
    kind: str
    message: str


def check_values(values: Any, types: dict[str, str]) -> dict[str, Any]:
    """What was published, with the types of the channels; raises if anything does not fit."""
    if not isinstance(values, dict):
        raise InvalidArgumentError("channels: are no object; give a value for each channel")
    unknown = sorted(set(values) - set(types))
    missing = sorted(set(types) - set(values))
    if unknown or missing:
        said = [
            *([f"{', '.join(map(repr, unknown))[:200]} is not a channel"] if unknown else []),
            *([f"{', '.join(missing)[:200]} is missing"] if missing else []),
        ]
        raise InvalidArgumentError(
            f"channels: {' and '.join(said)}; give {', '.join(sorted(types))[:500]}"
        )
    return {name: _as_type(f"channels.{name}", values[name], kind) for name, kind in types.items()}


def fits(value: Any, kind: str) -> bool:
    """Whether a value may stand in a channel of this type."""
    if kind == "number" and type(value) is float:
        return math.isfinite(value)
    if kind.endswith("[]"):
        element = kind.removesuffix("[]")
        return (
            isinstance(value, list)
            and len(value) <= LONGEST_ARRAY
            and all(fits(each, element) for each in value)
        )
    if not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return False
    if isinstance(value, str):
        return len(value) <= LONGEST_STRING and "\x00" not in value and _is_unicode(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= LARGEST_INTEGER


def weight(value: Any) -> int:
    """Bytes, about, that a value of a channel takes."""
    if type(value) is float:
        return 8
    if isinstance(value, list):
        return sum(weight(each) for each in value)
    return 4 * len(value) if isinstance(value, str) else 8


def _as_type(place: str, value: Any, kind: str) -> Any:
    if not fits(value, kind):
        raise InvalidArgumentError(
            f"{place}: is no {kind} that can be taken; numbers are finite, strings have at most "
            f"{LONGEST_STRING} characters, arrays {LONGEST_ARRAY} elements"
        )
    if kind == "number":
        return float(value)
    return [float(each) for each in value] if kind == "number[]" else value


def _is_unicode(text: str) -> bool:
    """Half a surrogate pair can be written in JSON, and nowhere else."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
