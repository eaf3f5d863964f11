"""Language of docstrings: they open with a noun or an imperative, never a question word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import holdfast

PACKAGE = Path(holdfast.__file__).parent

QUESTION = re.compile(r"(What|Whether|Who|Whom|Whose|Where|Which|How|When)\b")

MOST_OPEN = 721
"""Docstrings of classes and functions that still open with a question word; it may only fall."""


def docstrings() -> Iterator[tuple[str, bool, str]]:
    """Each docstring: where it stands, whether it is a module's, its text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield module, isinstance(node, ast.Module), text


def test_modules_open_with_a_noun() -> None:
    wrong = [
        f"{module}: {text.splitlines()[0]}"
        for module, of_module, text in docstrings()
        if of_module and QUESTION.match(text)
    ]
    assert wrong == []


def test_other_docstrings_become_fewer_that_ask() -> None:
    found = sum(not of_module and bool(QUESTION.match(text)) for _, of_module, text in docstrings())
    assert found <= MOST_OPEN
