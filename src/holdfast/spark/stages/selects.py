"""A SELECT over the input, taken apart: the columns it selects and its condition.

Spark itself reads what is in the parts; here only commas, brackets, quotes, comments and the words
FROM and WHERE count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidArgumentError

__all__ = ["SelectText", "take_apart"]

_TOKEN: Final = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    | (?P<word>\w+)
    | (?P<open>[(\[])
    | (?P<close>[)\]])
    | (?P<comma>,)
    | (?P<other>\s+|.)
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True)
class SelectText:
    columns: tuple[str, ...]
    where: str | None


def take_apart(place: str, text: str) -> SelectText:
    """`place` is what errors call the text."""
    parts: dict[str, list[str]] = {}
    clause, depth = "", 0
    for token in _TOKEN.finditer(text):
        said, kind = token.group(), token.lastgroup
        word = said.upper() if kind == "word" and not depth else ""
        if word in ("SELECT", "FROM", "WHERE"):
            if word in parts:
                raise _refused(place)
            clause = word
            parts[clause] = [""]
            continue
        if kind == "comment" or (not clause and said.isspace()):
            said = " "
        elif not clause:
            raise _refused(place)
        depth += (kind == "open") - (kind == "close")
        if clause == "SELECT" and kind == "comma" and not depth:
            parts[clause].append("")
        elif clause:
            parts[clause][-1] += said
    if list(parts) not in (["SELECT", "FROM"], ["SELECT", "FROM", "WHERE"]):
        raise _refused(place)
    if parts["FROM"][0].strip().lower() not in ("input", "`input`"):
        raise _refused(place)
    where = parts["WHERE"][0].strip() if "WHERE" in parts else None
    return SelectText(tuple(each.strip() for each in parts["SELECT"]), where)


def _refused(place: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{place}: cannot be taken apart; write SELECT columns FROM input WHERE condition, "
        "with nothing behind it and `input` without another name"
    )
