"""The Python examples of README.md and docs/ run: a file's blocks in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.pipeline.topology import Topology

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = [REPOSITORY / "README.md", *sorted(REPOSITORY.glob("docs/**/*.md"))]

TOPOLOGIES = {"README.md": 1, "docs/running.md": 1, "docs/edge.md": 1}
"""How many whole topologies a document has at least: blocks of TOML that name streams and sinks."""

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
@pytest.mark.usefixtures("spark")
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(path)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_topologies_are_right(name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (REPOSITORY / name).read_text(), re.M | re.S)
    whole = [block for block in blocks if "bucket" in block and "[sinks" in block]
    for block in whole:
        file = tmp_path / "example.toml"
        file.write_text(block)
        assert Topology.read(file).sinks
    assert len(whole) >= TOPOLOGIES[name]


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
