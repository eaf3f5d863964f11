"""Spark's Python daemon, which starts its workers, with less to import in each of them.

Spark puts an archive of its Python sources before all else that its workers import, and Python
compiles them anew in each of them: that takes more than half a second. So this one takes the
package that is installed, where it is of the same version.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

__all__ = ["serve", "without_archive"]

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


def serve(preload: Sequence[str]) -> None:
    """Be the daemon. Workers have these modules from their start: one that is started anew, as
    after a minute without work, does not import them again."""
    sys.path[:] = without_archive(sys.path)
    for name in preload:
        import_module(name)
    from pyspark.daemon import manager

    # What workers have from the daemon is never looked at by their collectors, so it stays shared.
    gc.freeze()
    manager()
