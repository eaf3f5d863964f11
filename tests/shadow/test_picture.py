from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree

import matplotlib
import pytest

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.shadow.picture import draw_shadow
from holdfast.windows import monoids as m
from holdfast.windows.approximation import Method, Shadow, max_error, max_leaves
from holdfast.windows.policies import last

PNG = b"\x89PNG\r\n"


def shadow(method: Method | list[Method], monoid=m.mean, length: int = 2_000) -> Shadow:
    random = Random(4)
    shadow = Shadow(monoid, method, last(300))
    shadow.feed(random.gauss(50, 5) for _ in range(length))
    return shadow


def texts(path: Path) -> str:
    return " ".join(" ".join(ElementTree.parse(path).getroot().itertext()).split())


def test_a_png_is_drawn(tmp_path: Path) -> None:
    drawn = draw_shadow(shadow(max_error("5%")), str(tmp_path / "shadow.PNG"))
    assert drawn.read_bytes().startswith(PNG)


def test_a_drawing_tells_the_exact_share_the_bound_and_the_steady_state(tmp_path: Path) -> None:
    seen = shadow(max_error("5%"))
    words = texts(draw_shadow(seen, tmp_path / "shadow.svg"))
    assert f"exact: {100 * seen.report().exact_share:.4g} %" in words
    assert "bound 5 %" in words
    assert "steady state begins" in words
    assert "max_error(5%, confidence=0.95)" in words


def test_no_line_for_a_bound_that_there_is_not(tmp_path: Path) -> None:
    words = texts(draw_shadow(shadow(max_leaves(20)), tmp_path / "shadow.svg"))
    assert "bound" not in words
    assert "exact: " in words


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (shadow(max_leaves(1_000)), "all 2,000 answers are exact"),
        (shadow(max_leaves(10), m.collect), "the others have no size"),
        (shadow(max_leaves(10), length=0), "all 0 answers are exact"),
    ],
)
def test_where_there_is_no_curve_words_take_its_place(
    seen: Shadow, words: str, tmp_path: Path
) -> None:
    assert words in texts(draw_shadow(seen, tmp_path / "shadow.svg"))


def test_reports_draw_like_their_shadows_and_twice_the_same(tmp_path: Path) -> None:
    seen = shadow(max_leaves(20))
    one = draw_shadow(seen, tmp_path / "one.svg").read_bytes()
    assert draw_shadow(seen.report(), tmp_path / "two.svg").read_bytes() == one


def test_matplotlib_is_left_as_it_was(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    draw_shadow(shadow(max_leaves(20)), tmp_path / "shadow.svg")
    assert dict(matplotlib.rcParams) == before


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"shadow\.gif: a picture is \.png or \.svg"):
        draw_shadow(shadow(max_leaves(20), length=10), tmp_path / "shadow.gif")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be written"):
        draw_shadow(shadow(max_leaves(20), length=10), tmp_path / "absent" / "shadow.png")
