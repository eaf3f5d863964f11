"""`holdfast tenant`: tenants are let in and listed, and their tokens replaced, from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from holdfast.cli import app
from holdfast.errors import InvalidArgumentError
from holdfast.tenants.process.service import Service


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["tenant", *map(str, words)])


def test_a_token_is_printed_once_and_replaced(tmp_path: Path) -> None:
    state = tmp_path / "server"
    first = run("add", "ann", "--state", state, "--streams", 3).stdout.strip()
    assert run("list", "--state", state).stdout == "ann\n"
    second = run("rotate", "ann", "--state", state).stdout.strip()
    service = Service.open(state, None)
    try:
        known = service.registry.with_token(second)
        assert known is not None
        assert (known.name, known.quotas.streams) == ("ann", 3)
        assert service.registry.with_token(first) is None
    finally:
        service.database.close()


@pytest.mark.parametrize("words", [("list",), ("rotate", "ann")])
def test_a_folder_that_is_not_there_is_not_made(words: tuple[str, ...], tmp_path: Path) -> None:
    state = tmp_path / "nowhere"
    said = run(*words, "--state", state)
    assert isinstance(said.exception, InvalidArgumentError)
    assert "give that of the server" in str(said.exception)
    assert not state.exists()
