"""Lines that a sensor should not be given, for tests and campaigns: types, sizes and numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

__all__ = ["lines"]

NUMBERS = (0, -0.0, 1, -1, 1.5, 1e308, -1e308, 5e-324, 2**53 + 1, 2**63, -(2**64), 10**400)
TEXTS = ("", "a", "\u2028", "\x00", "\ud800", "nan", "inf", "-inf", "1e999", "0x10", "k" * 257)
RAW = (
    b"",
    b" ",
    b"\x00\x01\x02",
    b"\xff\xfe\xfd",
    b"{",
    b"}",
    b"[" * 100_000,
    b'{"value":' * 20_000,
    b"9" * 10_000,
    b"x" * 2_000_000,
    b"value,time,key",
    b"NaN",
    b"null",
    b"true",
    b'"text"',
    b'{"value": NaN}',
    b'{"value": Infinity}',
    b'{"value": -Infinity, "key": "a"}',
    b'{"value": 1, "value": 2}',
    b'{"value": 1, "key": ["a", "b"]}',
    b'{"value": 1, "key": [["a"], ["b"]]}',
    b'{"value": 1, "key": {"a": 1}}',
    b'{"value": 1, "key": "\\ud800"}',
    b'{"value": 1, "time": 1e300}',
    b'{"value": 1, "time": NaN}',
    b'{"value": 1, "time": -1}',
    b'{"value": 1, "time": "yesterday"}',
    b'{"value": 1, "time": "0001-01-01T00:00:00-23:59"}',
    b'{"value": 1, "time": 1700000000000}',
)


def lines(random: Random, count: int) -> Iterator[bytes]:
    """Each of those that have ended a process once, then odd ones at random."""
    yield from RAW
    for _ in range(count):
        if random.random() < 0.2:
            yield random.randbytes(random.choice([1, 10, 1_000])).replace(b"\n", b"")
        else:
            yield json.dumps(_event(random)).encode("utf-8", "surrogatepass")


def _event(random: Random) -> Any:
    event: dict[str, Any] = {}
    if random.random() < 0.9:
        event["value"] = _value(random, 2)
    if random.random() < 0.7:
        event["key"] = _value(random, 3)
    if random.random() < 0.1:
        event["time"] = _value(random, 1)
    if random.random() < 0.1:
        event[random.choice(TEXTS)] = _value(random, 3)
    return event if random.random() < 0.95 else _value(random, 3)


def _value(random: Random, depth: int) -> Any:
    kinds = ("number", "number", "text", "small", "plain", *(("list", "dict") if depth else ()))
    match random.choice(kinds):
        case "number":
            return random.choice(NUMBERS)
        case "text":
            return random.choice(TEXTS)
        case "small":
            return random.randrange(5)
        case "plain":
            return random.choice([None, True, False, float("nan"), float("inf")])
        case "list":
            return [_value(random, depth - 1) for _ in range(random.randrange(4))]
        case _:
            return {random.choice(TEXTS): _value(random, depth - 1) for _ in range(2)}
