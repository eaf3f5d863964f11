"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from holdfast.cli import app

__all__ = ["write_commands"]


def write_commands() -> str:
    """A section for each command, in the order of `holdfast --help`; groups with theirs."""
    root = typer.main.get_command(app)
    return "\n\n".join(_write_all(root, ["holdfast"]))


def _write_all(command: Any, path: list[str]) -> Iterator[str]:
    context = command.context_class(command, info_name=" ".join(path))
    yield _write_command(command, context, path)
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from _write_all(each, [*path, name])


def _write_command(command: Any, context: Any, path: list[str]) -> str:
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    parts = [
        f"{'#' * min(len(path) + 1, 4)} `{' '.join(path)}`",
        (command.help or "").strip(),
        f"```text\n{usage}\n```",
    ]
    rows = [
        record
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) is not None and record[0] != "--help"
    ]
    if rows:
        parts.append("| | |\n|---|---|")
        parts[-1] += "".join(f"\n| `{_cell(name)}` | {_cell(text)} |" for name, text in rows)
    return "\n\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
