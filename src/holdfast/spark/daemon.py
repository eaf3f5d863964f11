"""Spark's Python daemon, which starts its workers: `spark.python.daemon.module` names it.

Spark puts an archive of its Python sources before all else that its workers import, and Python
compiles them anew in each of them: that takes more than half a second. So this one takes the
package that is installed, where it is of the same version.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

__all__ = ["DAEMON", "without_archive"]

DAEMON: Final = "holdfast.spark.daemon"
_ARCHIVE: Final = "pyspark.zip"
_VERSION: Final = "pyspark/version.py"


def without_archive(path: Sequence[str]) -> list[str]:
    """The path for imports without Spark's archive, if the same is installed; else as it is."""
    others = [each for each in path if Path(each).name != _ARCHIVE]
    archives = [each for each in path if Path(each).name == _ARCHIVE]
    spec = PathFinder.find_spec("pyspark", others)
    if not archives or spec is None or spec.origin is None:
        return list(path)
    try:
        installed = Path(spec.origin).with_name("version.py").read_bytes()
        with ZipFile(archives[0]) as archive:
            is_same = archive.read(_VERSION) == installed
    except (OSError, KeyError, BadZipFile):
        return list(path)
    return others if is_same else list(path)


def main() -> None:
    sys.path[:] = without_archive(sys.path)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
