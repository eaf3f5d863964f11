from __future__ import annotations

from pathlib import Path

from holdfast.demo.picture import draw_failure
from holdfast.time_line import TimeLine
from tests.test_time_line import broken


def test_a_failure_is_drawn_for_the_screen_and_for_the_browser(tmp_path: Path) -> None:
    line: TimeLine = broken()
    image, page = draw_failure(line, tmp_path, "3 answers & all <right>")
    assert (image.name, page.name) == ("failure.png", "failure.html")
    assert image.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert "3 answers &amp; all &lt;right&gt;" in text
    assert text.count("<svg") == 1
    assert "UNDO: previews are withdrawn" in text
