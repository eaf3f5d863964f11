"""The Python examples of README.md and docs/ run: a file's blocks in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]

BLOCK = re.compile(r"^```python[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> list[str]:
    """The ```python blocks, each moved down to its own lines so that errors point into the file."""
    return [
        "\n" * text.count("\n", 0, block.start(1)) + block.group(1)
        for block in BLOCK.finditer(text)
    ]


def run_blocks(path: Path) -> int:
    """Run a document's blocks; how many there were."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    blocks = python_blocks(path.read_text())
    for block in blocks:
        exec(compile(block, str(path), "exec"), namespace)
    return len(blocks)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(path)


def test_there_are_examples() -> None:
    assert any(python_blocks(path.read_text()) for path in DOCUMENTS)


def test_blocks_share_a_namespace_and_other_languages_are_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "# Page\n```python\nx = 20\n```\n```sh\nexit 1\n```\ntext\n```python\nassert x == 20\n```\n"
    )
    assert run_blocks(document) == 2


def test_a_wrong_example_fails_at_its_line(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("# Page\n\n```python\nx = 20\nassert x == 21\n```\n")
    with pytest.raises(AssertionError) as failure:
        run_blocks(document)
    assert failure.traceback[-1].lineno == 4  # counted from 0
