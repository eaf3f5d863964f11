"""Writing pictures: the formats there are, and files that come out the same each time.

Called by the modules that draw: `picture` of `shadow`, `campaign` and `demo`. Draws nothing itself.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from holdfast.errors import HoldfastError, InvalidArgumentError

__all__ = ["check_picture", "new_picture", "save_picture", "svg_of"]

FORMATS: Final = (".png", ".svg")


def check_picture(path: Path) -> Path:
    """The path, if its suffix names a format that can be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgumentError(
            f"{path}: a picture is {' or '.join(FORMATS)}; give a file name that ends so"
        )
    return path


def new_picture(width: float, height: float) -> Figure:
    """An empty figure of this size in inches, which no window will ever show."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_picture(figure: Figure, path: Path) -> Path:
    """Write it as PNG or SVG, with a fixed salt and no date: the same picture, the same file."""
    try:
        _save(figure, path, path.suffix.lower()[1:])
    except OSError as error:
        raise HoldfastError(
            f"{path}: cannot be written ({error.strerror}); give another file"
        ) from error
    return path


def svg_of(figure: Figure) -> str:
    """The same SVG as an element for a page."""
    drawing = StringIO()
    _save(figure, drawing, "svg")
    text = drawing.getvalue()
    return text[text.index("<svg") :]


def _save(figure: Figure, target: Path | StringIO, form: str) -> None:
    _fix_layout(figure)
    metadata = {"Date": None} if form == "svg" else {}
    with rc_context({"svg.hashsalt": "holdfast", "svg.fonttype": "none"}):
        figure.savefig(target, format=form, dpi=120, metadata=metadata)


def _fix_layout(figure: Figure) -> None:
    """Lay it out and forget the last bits: those of the solver change from time to time, and an SVG
    names its parts after them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        left, bottom, width, height = (round(part, 12) for part in axis.get_position().bounds)
        axis.set_position((left, bottom, width, height))
