from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pictures import check_picture, new_picture, save_picture, svg_of


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.SVG", "b/a.b.png"])
def test_formats_that_can_be_drawn(name: str) -> None:
    assert check_picture(Path(name)) == Path(name)


@pytest.mark.parametrize("name", ["a.gif", "a", "svg"])
def test_other_formats_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"a picture is \.png or \.svg"):
        check_picture(Path(name))


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    files = []
    for number in range(12):
        figure = new_picture(6, 5)
        for axis in figure.subplots(4, 1, gridspec_kw={"height_ratios": [0.74, 3.2, 2.0, 1.2]}):
            axis.plot([0, 1], [0, 1])
            axis.set_title("a title")
            axis.grid()
        files.append(save_picture(figure, tmp_path / f"{number}.svg").read_bytes())
    assert len(set(files)) == 1


def test_an_svg_for_a_page_is_the_element_of_the_file(tmp_path: Path) -> None:
    figure = new_picture(2, 2)
    figure.subplots().plot([0, 1], [0, 1])
    element = svg_of(figure)
    assert element.startswith("<svg")
    assert save_picture(figure, tmp_path / "a.svg").read_text().endswith(element)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be written"):
        save_picture(new_picture(2, 2), tmp_path / "absent" / "a.png")
