from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.job_spec import Charter
from tests.verify.process.charters import charter


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = charter(patience=7.0, limit=9.0, pools={1: frozenset({"a", "b"})})
    written.write(tmp_path / "charter.json")
    assert Charter.read(tmp_path / "charter.json") == written


@pytest.mark.parametrize(
    ("text", "message"), [(None, "No such file"), ("{}", "no charter"), ("x", "no charter")]
)
def test_what_is_no_charter(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "charter.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidArgumentError, match=message):
        Charter.read(path)


def test_everybody_has_a_key() -> None:
    good = charter()
    with pytest.raises(InvalidArgumentError, match="keys"):
        replace(good, keys={0: good.keys[0]})
    with pytest.raises(InvalidArgumentError, match="keys"):
        replace(good, keys={**good.keys, 4: b"short"})
    with pytest.raises(InvalidArgumentError, match="job"):
        replace(good, job="a/b")
