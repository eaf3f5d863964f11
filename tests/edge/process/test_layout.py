"""The file of an edge: what it says, and that every error names its place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.problems import TopologyError
from holdfast.edge.process.config import Layout
from holdfast.errors import InvalidArgumentError

FILE = """
sync = "200ms"

[root]
address = "127.0.0.1:7400"

[children.c1]
address = "127.0.0.1:7401"
[children.c2]
address = "127.0.0.1:7402"

[intermediates.i1]
address = "127.0.0.1:7421"

[sensors.s1]
rate = 500

[queries.load]
aggregate = "mean"
size = "10s"
[queries.tail]
aggregate = "quantiles"
size = "10s"
slide = "2s"
shares = [0.5, 0.99]
"""


def write(folder: Path, text: str = FILE) -> Path:
    path = folder / "plant.toml"
    path.write_text(text)
    return path


def test_a_file_says_who_takes_part(tmp_path: Path) -> None:
    layout = Layout.read(write(tmp_path))
    assert layout.name == "plant"
    assert layout.groups() == {"edge": ("c1", "c2")}
    assert layout.layers("edge") == [("i1",)]
    assert layout.sync == 200_000
    assert [layout.role(name) for name in ("root", "c1", "i1", "s1")] == [
        "root",
        "child",
        "intermediate",
        "sensor",
    ]
    load, tail = layout.asked()
    assert (load.id, load.aggregate, load.size, load.slide) == ("load", "mean", 10**7, 10**7)
    assert (tail.slide, tail.options) == (2 * 10**6, {"shares": (0.5, 0.99)})


def test_a_name_that_nobody_has(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no 'c3'.*give one of root, c1, c2"):
        Layout.read(write(tmp_path)).role("c3")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('sync = "200ms"', 'snc = "200ms"', r"snc: there is no such field \(did you mean 'sync'"),
        ('sync = "200ms"', "sync = 3", "sync: 3 is no interval; write a text"),
        ('"127.0.0.1:7402"', '"127.0.0.1:7401"', r"\[children.c2\] address: .* already; give"),
        ('"127.0.0.1:7402"', '"192.0.2.7:7401"', r"\[children.c2\] address: .* \[security\]"),
        ("[sensors.s1]", "[sensors.c1]", r"\[sensors.c1\]: the name is taken by \[children.c1\]"),
        ("rate = 500", 'group = "egde"', r"\[sensors.s1\] group: no child .* .did you mean 'edge'"),
        ('"mean"', '"meen"', r"\[queries.load\] aggregate: .* .did you mean 'mean'"),
        (
            'slide = "2s"',
            "keyed = true",
            r"\[queries.tail\] keyed: sensors.s1 has no keys: .*; giv",
        ),
        ('slide = "2s"', 'slide = "20s"', r"\[queries.tail\] slide: 20s is longer than the size"),
        ('sync = "200ms"', 'heartbeat = "5s"', r"heartbeat: is longer than the panes of \[queri"),
        ("shares = [0.5, 0.99]", "lg_k = 12", r"\[queries.tail\] lg_k: is for distinct, not for q"),
        ("shares = [0.5, 0.99]", "shares = [5]", r"shares: 5 is no share; give numbers from 0"),
        ('"127.0.0.1:7421"', '"127.0.0.1:7421"\nlayer = 2', r"\[intermediates.i1\] layer: there i"),
        ("[root]", "[security]\nmutual = true\n[root]", r"\[security\] token_file: is missing"),
        ("[root]", '[security]\nkey = "x"\n[root]', r"\[security\] certificate: is missing"),
    ],
)
def test_an_error_names_file_table_field_and_remedy(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    assert old in FILE
    path = write(tmp_path, FILE.replace(old, new))
    with pytest.raises(TopologyError, match=told) as failure:
        Layout.read(path)
    assert str(failure.value).startswith(str(path))


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    text = FILE.replace('"mean"', '"meen"').replace("rate = 500", "rate = -1")
    with pytest.raises(TopologyError) as failure:
        Layout.read(write(tmp_path, text))
    assert len(failure.value.problems) == 2


def test_the_file_of_the_documentation_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "edge.md").read_text()
    first = page.split("```toml\n")[1].split("```")[0]
    layout = Layout.read(write(tmp_path, first))
    assert list(layout.children) == ["c1", "c2", "c3"]
    assert [query.id for query in layout.asked()] == ["load"]
