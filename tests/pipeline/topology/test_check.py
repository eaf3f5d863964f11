from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology import TopologyError
from holdfast.pipeline.topology.check import check
from holdfast.pipeline.topology.reference import EXAMPLE


def test_a_file_that_is_right_is_drawn(tmp_path: Path) -> None:
    file, screen = tmp_path / "fleet.toml", io.StringIO()
    file.write_text(EXAMPLE)
    check(file, Console(file=screen, width=200), svg=tmp_path / "fleet.svg")
    assert "─ minutes ─" in screen.getvalue()
    assert f"{file}: fine, 3 streams, 3 stages, 3 sinks, 12 processes" in screen.getvalue()
    assert f"picture: {tmp_path / 'fleet.svg'}" in screen.getvalue()
    assert (tmp_path / "fleet.svg").read_text().startswith("<svg")


def test_a_file_that_is_wrong_is_not(tmp_path: Path) -> None:
    file, screen = tmp_path / "fleet.toml", io.StringIO()
    file.write_text(EXAMPLE.replace('"4s"', '"4x"'))
    with pytest.raises(TopologyError, match=r"fleet.toml: \[stages.clean\] max_delay: .*; use one"):
        check(file, Console(file=screen), svg=tmp_path / "fleet.svg")
    assert screen.getvalue() == ""
    assert not (tmp_path / "fleet.svg").exists()


def test_the_name_of_the_picture_is_checked_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ends in \.svg"):
        check(tmp_path / "none.toml", Console(file=io.StringIO()), svg=tmp_path / "fleet.pdf")
