"""Orders of replicas: one line, in which secrets are not shown to people."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.transport.security import Security
from holdfast.verify.machine import Mode
from holdfast.verify.process.pinned_files import SourceFile
from holdfast.verify.process.submission import Orders

ORDERS = Orders(
    file="billing.py",
    code=b"job = ...",
    job="billing-1",
    replica=3,
    mode=Mode.HYBRID,
    slices=8,
    retries=3,
    submitted=1_794_000_000_123_456,
    sources={"readings": (SourceFile("readings.parquet", 17, bytes(32)),)},
    storage="storage",
    hosts=(),
    verifiers=("127.0.0.1:7001", "127.0.0.1:7002"),
    asks=("127.0.0.1:7002",),
    secret=bytes(range(32)),
    security=Security(token="a-token"),
    spark={"spark.master": "local[1]"},
)


def test_orders_come_back_as_one_line() -> None:
    line = ORDERS.encode()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert Orders.decode(line) == ORDERS


def test_secrets_are_not_shown() -> None:
    assert "a-token" not in repr(ORDERS)
    assert "secret" not in repr(ORDERS)


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_other_lines_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"orders: .*give those of a replica"):
        Orders.decode(text.encode())
