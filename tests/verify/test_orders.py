"""Orders of replicas: what is written is read, and nobody else reads it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.verification import Mode
from holdfast.verify.orders import Orders
from holdfast.verify.source_files import SourceFile
from holdfast.wire.security import Security

ORDERS = Orders(
    file="billing.py",
    job="billing-1",
    replica=3,
    mode=Mode.HYBRID,
    slices=8,
    retries=3,
    submitted=1_794_000_000_123_456,
    sources={"readings": (SourceFile("readings.parquet", 17),)},
    storage="storage",
    folder="replica-3",
    verifiers=("127.0.0.1:7001", "127.0.0.1:7002"),
    asks=("127.0.0.1:7002",),
    secret=bytes(range(32)),
    security=Security(token="a-token"),
    spark={"spark.master": "local[1]"},
)


def test_orders_come_back(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    ORDERS.write(path)
    assert Orders.read(path) == ORDERS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_are_not_shown() -> None:
    assert "a-token" not in repr(ORDERS)
    assert "secret" not in repr(ORDERS)


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "orders.json"
    path.write_text(text)
    with pytest.raises(InvalidArgumentError, match="these are no orders"):
        Orders.read(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"none: No such file"):
        Orders.read(tmp_path / "none")
