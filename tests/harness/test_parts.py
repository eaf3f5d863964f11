from __future__ import annotations

import pytest

from harness.parts import UnknownPartError, load_part, part_names

PART = "DESCRIPTION = 'a part'"


def test_a_name_has_hyphens_where_its_module_has_underscores(make_folder) -> None:
    folder = make_folder(spark_windows=PART, windows=PART)
    assert part_names(folder) == ["spark-windows", "windows"]
    assert load_part(folder, "spark-windows").__name__ == f"{folder.__name__}.spark_windows"


def test_a_part_has_one_name_only(make_folder) -> None:
    # Or its results would be written under two.
    folder = make_folder(spark_windows=PART)
    with pytest.raises(UnknownPartError, match="did you mean 'spark-windows'"):
        load_part(folder, "spark_windows")
