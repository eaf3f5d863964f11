"""The flood of the campaign `verified`, against a verifier that keeps callers out and one that does
not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.floods import Flooding, addresses_below
from tests.transport.parties import wait_for
from tests.verify.process.charters import verifier_process


def flooded(folder: Path, *options: str) -> None:
    with verifier_process(folder, *options) as verifier:
        assert verifier.address
        with Flooding(folder, times=1, size=32 << 20) as flooding:
            wait_for(lambda: flooding.floods)


def test_it_does_nothing_to_a_verifier(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("right")
    flooded(tmp_path, f"--token-file={path}")


def test_it_finds_one_without_a_front(tmp_path: Path) -> None:
    """None stands before a verifier that has no token: it reads all, if not for long."""
    with pytest.raises(AssertionError, match="without the token were refused, and the verifier"):
        flooded(tmp_path)


def test_it_goes_on_though_folders_vanish_while_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those that Spark makes for its blocks."""
    for name in ("a-block", "verifier-1"):
        (tmp_path / "work" / name).mkdir(parents=True)
    address = tmp_path / "work" / "verifier-1" / "address"
    address.touch()
    scan = os.scandir

    def vanish(path: Any) -> Any:
        if Path(path).name == "a-block":
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanish)
    assert addresses_below(tmp_path) == [address]
