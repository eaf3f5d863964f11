"""The commands that README.md and docs/ have a reader type are there, and take what they get."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import parts
from harness.parts import part_names
from holdfast.cli import app
from soak import campaigns
from tests.test_readme import DOCUMENTS, REPOSITORY

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:\.venv/bin/)?holdfast (?!node \.\*)")
PLACEHOLDERS = {"...", "COMMAND"}
"""Words that stand for a command of the reader's choice."""
FOR_THE_SHELL = re.compile(r" (?:\d?>|&|\|).*")
"""What follows a command and is not for it."""


def lines_of(text: str) -> Iterator[str]:
    """What is to be typed: lines of shell blocks and of indented ones, without comments."""
    for fence in FENCE.finditer(text):
        if fence.group(1) in ("sh", "shell", "bash"):
            yield from fence.group(2).splitlines()
    for line in FENCE.sub("", text).splitlines():
        if line.startswith("    "):
            yield line.strip()


def commands(pattern: str) -> list[tuple[str, str]]:
    return [
        (str(path.relative_to(REPOSITORY)), line)
        for path in DOCUMENTS
        for line in lines_of(path.read_text())
        if re.match(pattern, line)
    ]


def parse(words: list[str]) -> str:
    """The command that `holdfast WORDS` would run; a wrong option or argument raises."""
    command, context, name = typer.main.get_command(app), None, "holdfast"
    while True:
        context = command.make_context(name, words, parent=context)
        if not hasattr(command, "resolve_command"):
            return str(context.command_path)
        name, command, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )


@pytest.mark.parametrize(("page", "line"), commands(COMMAND.pattern))
def test_a_command_of_holdfast_is_understood(page: str, line: str) -> None:
    words = shlex.split(FOR_THE_SHELL.sub("", line), comments=True)[1:]
    if PLACEHOLDERS.intersection(words):
        return
    assert parse(words).startswith("holdfast ")


def test_a_wrong_command_is_found() -> None:
    with pytest.raises(Exception, match="--no-such-option"):
        parse(["check", "fleet.toml", "--no-such-option"])


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(("page", "line"), commands(r"make( |$)"))
def test_a_target_of_make_is_there(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    assert {word for word in words if "=" not in word} <= targets()


def test_parts_that_pages_name_are_there() -> None:
    known = {
        "bench": {*part_names(parts)},
        "soak": {*part_names(campaigns)},
        "example": {path.parent.name for path in REPOSITORY.glob("examples/*/example.py")},
    }
    for page in DOCUMENTS:
        for target, name in re.findall(
            r"make (bench|soak|example) (?:PART|NAME)=([a-z-]+)", page.read_text()
        ):
            assert name in known[target] | {"name"}, f"{page.name}: make {target} {name}"


def test_the_topology_of_the_readme_passes_its_first_command(tmp_path: Path) -> None:
    text = (REPOSITORY / "README.md").read_text()
    (toml,) = [block for language, block in FENCE.findall(text) if language == "toml"]
    file = tmp_path / "fleet.toml"
    file.write_text(toml)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 0, result.output
    assert "1 stream, 1 stage, 1 sink, 4 processes" in result.output
