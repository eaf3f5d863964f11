"""A replica's process says why it cannot start; what it does is tested in tests/live."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from holdfast.errors import REFUSED, RefusedWriteError
from holdfast.verify.process import replica_process
from holdfast.verify.process.pinned_files import CHANGED, ChangedFileError
from holdfast.verify.process.processes import REPLICA
from holdfast.verify.process.replica import Trace
from holdfast.verify.process.replica_process import main, replica_environment
from holdfast.verify.process.submission import Orders
from tests.verify.process.test_orders import ORDERS


def ended(orders: bytes, environment: dict[str, str]) -> str:
    """What it says of errors. Its input stays open, as that of a replica whose coordinator runs."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    with subprocess.Popen(
        [sys.executable, *REPLICA],
        env=kept | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(orders.decode())
        process.stdin.flush()
        said = process.stderr.read()
        assert process.stdout.read() == ""
    assert process.returncode == 1
    return said


@pytest.mark.parametrize(
    ("orders", "environment", "message"),
    [
        (b"{}\n", replica_environment(), "orders: Object missing required field"),
        (ORDERS.encode(), {}, "PYTHONHASHSEED: is not 0"),
        (ORDERS.encode(), replica_environment(), "billing.py: makes no Job"),
        (
            replace(ORDERS, hosts=("n1", "n2")).encode(),
            replica_environment() | {"HOLDFAST_HOST": "n3"},
            "launch: this driver runs on n3, and its pool has n1, n2",
        ),
        (
            replace(ORDERS, hosts=("n1", "n2")).encode(),
            replica_environment() | {"HOLDFAST_HOST": "n2"},
            "billing.py: makes no Job",
        ),
    ],
)
def test_it_says_why_it_cannot_start(
    orders: bytes, environment: dict[str, str], message: str
) -> None:
    assert message in ended(orders, environment)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ChangedFileError("a"), CHANGED), (RefusedWriteError("a"), REFUSED), (ValueError("a"), None)],
)
def test_what_the_coordinator_must_know_is_its_exit_code(
    error: Exception, code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(orders: Orders, trace: Trace) -> None:
        raise error

    monkeypatch.setattr(replica_process, "attend", lambda: (ORDERS, 1))
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    with pytest.raises(ValueError if code is None else SystemExit) as found:
        main([], run)
    assert getattr(found.value, "code", None) == code
