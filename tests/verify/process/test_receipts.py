"""A delivered folder can be checked by its receipt."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.delivery import (
    NAME,
    Receipt,
    check_receipt,
    digest_of_receipt,
    read_receipt,
)

RECEIPT = Receipt(
    submission="bill-1", job="bill", arguments=(), pinned={}, pins="", stages={}, written={}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bills").mkdir()
    for name in "ab":
        (tmp_path / "bills" / name).write_text(name)
    RECEIPT.write(tmp_path)
    return tmp_path


def test_what_is_as_it_was_delivered_passes(folder: Path) -> None:
    assert list(check_receipt(folder)) == []
    assert set(read_receipt(folder).files) == {"bills/a", "bills/b"}
    before = digest_of_receipt(folder)
    RECEIPT.write(folder)
    assert digest_of_receipt(folder) == before


def test_all_that_has_changed_is_named(folder: Path) -> None:
    (folder / "bills" / "a").write_text("x")
    (folder / "bills" / "b").unlink()
    (folder / "bills" / "c").touch()
    assert list(check_receipt(folder)) == [
        "bills/a: has other bytes",
        "bills/b: is gone",
        "bills/c: is new",
    ]


@pytest.mark.parametrize("text", [None, "{}"])
def test_a_folder_without_a_receipt_is_refused(folder: Path, text: str | None) -> None:
    (folder / NAME).unlink()
    if text is not None:
        (folder / NAME).write_text(text)
    else:
        assert digest_of_receipt(folder) == ""
    with pytest.raises(InvalidArgumentError, match=NAME):
        list(check_receipt(folder))
