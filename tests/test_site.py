"""What docs/building puts into the site, and what it refuses. `make lint` builds the whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def docs_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As docs/conf.py has it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "docs"))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "building"]:
        del sys.modules[name]


def test_every_command_has_a_section_with_its_options() -> None:
    from building.insertions import insert

    text = insert("before\n\n<!-- insert: commands -->\n\nafter")
    assert text.startswith("before\n\n## `holdfast`")
    assert "### `holdfast tail`" in text
    assert "#### `holdfast edge child`" in text
    assert "| `--stable` | Only final rows. |" in text
    assert text.endswith("after")


def test_figures_are_those_of_the_results() -> None:
    from building.insertions import insert

    result = json.loads((REPOSITORY / "benchmarks/results/nodes.json").read_text())
    text = insert("<!-- insert: claims nodes -->\n\n<!-- insert: machine nodes -->")
    for claim in result["claims"]:
        assert f"| {claim['name']} | {claim['figure']:.3g}{claim['unit']} |" in text
    assert f"revision `{result['revision']}`" in text


def test_a_claim_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from building import figures

    claim = {
        "name": "rate lost",
        "figure": 13.1,
        "bound": 3,
        "peer": "without",
        "at_least": False,
        "spread": [1.0, 20.0],
        "unit": " %",
        "holds": False,
    }
    (tmp_path / "edge.json").write_text(json.dumps({"claims": [claim]}))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    row = "| rate lost | 13.1 % | 1 to 20 | without | ≤ 3 % | **no** |"
    assert row in figures.write_claims("edge")


@pytest.mark.parametrize(
    "order",
    ["poem", "claims no-such-part", "claims nodes unheard-of", 'table nodes "no such table"'],
)
def test_what_is_not_there_cannot_be_put_in(order: str) -> None:
    from building.insertions import insert
    from sphinx.errors import ExtensionError

    with pytest.raises(ExtensionError):
        insert(f"<!-- insert: {order} -->")


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>', 1),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/x.css">', 1),
        ("a.html", '<a href="https://example.com">a link to follow</a>', 0),
        ("a.html", '<img src="pictures/own.svg">', 0),
        ("a.css", "@import 'https://fonts.example/x.css';", 1),
        ("a.css", "b { background: url(https://pictures.example/x.png) }", 1),
        ("a.css", "b { background: url(own.png) }", 0),
    ],
)
def test_requests_to_other_hosts_are_found(
    tmp_path: Path, name: str, text: str, found: int
) -> None:
    from building.offline import find_requests

    (tmp_path / name).write_text(text)
    assert len(list(find_requests(tmp_path))) == found
