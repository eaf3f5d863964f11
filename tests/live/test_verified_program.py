"""A program that writes, in replicas on Spark of which one lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.verified.billing import read_nightly, small_config, verify_billing, write_nightly
from harness.verified.lies import Lie, Wrong
from holdfast.verify.machine import Kind

pytestmark = pytest.mark.timeout(600)


def test_what_is_agreed_upon_is_written_once_by_the_coordinator(tmp_path: Path) -> None:
    file, expected = write_nightly(tmp_path / "job")
    place = tmp_path / "warehouse" / "most"
    lies = [Lie(2, "most", Wrong.VALUE)]
    config = small_config(tmp_path)
    account = verify_billing(file, config, tmp_path, lies, arguments=[str(place)])
    assert account.is_verified, account.text()
    assert read_nightly(place) == expected
    assert account.written == {"most": str(place)}
    assert account.arguments == (str(place),)
    assert account.output is not None
    assert list(account.output.rglob("*.parquet")) == []
    assert {(each.kind, each.replica) for each in account.findings} == {(Kind.OUTVOTED, 2)}
    assert sum("source of the program" in each for each in account.pinned) == 2
