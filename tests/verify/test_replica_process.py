"""A replica's process says why it cannot start; what it does is tested in tests/live."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.verify.replica_process import main
from tests.verify.test_orders import ORDERS


def ended(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    with pytest.raises(SystemExit) as caught:
        main([str(path)])
    assert caught.value.code == 1
    return capsys.readouterr().err


def test_orders_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "none: No such file or directory" in ended(capsys, tmp_path / "none")


def test_sets_must_have_one_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    ORDERS.write(tmp_path / "orders")
    assert "PYTHONHASHSEED: is not 0" in ended(capsys, tmp_path / "orders")


def test_a_job_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.chdir(tmp_path)
    ORDERS.write(tmp_path / "orders")
    assert "billing.py: cannot be read" in ended(capsys, tmp_path / "orders")
