"""The flood of the campaign `verified`, against a verifier that keeps callers out and one that does
not."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.floods import Flooding
from tests.verify.charters import verifier_process
from tests.wire.parties import wait_for


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
