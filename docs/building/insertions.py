"""Puts text made from code or results where a page has a comment `<!-- insert: NAME WORDS -->`.

It is made anew whenever the site is built, so nothing of it can be out of date.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Final

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from building.commands import write_commands
from building.figures import write_claims, write_machine, write_table

__all__ = ["insert", "setup"]

MARK: Final = re.compile(r"^<!-- insert: (.+) -->$", re.MULTILINE)
WRITERS: Final[dict[str, Callable[..., str]]] = {
    "commands": write_commands,
    "claims": write_claims,
    "machine": write_machine,
    "table": write_table,
}


def insert(text: str) -> str:
    """The text with every such comment replaced."""
    return MARK.sub(lambda mark: _write(mark.group(1)), text)


def _write(order: str) -> str:
    name, *words = shlex.split(order)
    if name not in WRITERS:
        raise ExtensionError(f"insert: {order}: there is no {name!r}, only {', '.join(WRITERS)}")
    return WRITERS[name](*words)


def setup(app: Sphinx) -> dict[str, object]:
    def read(_: Sphinx, page: str, content: list[str]) -> None:
        content[0] = insert(content[0])

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
