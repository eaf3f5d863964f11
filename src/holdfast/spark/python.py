"""The Python that Spark starts: `holdfast-python` is it, and begins in half the time.

Spark puts an archive of its Python sources before all else that its Python processes import, and
Python compiles them anew in each of them: that takes more than half a second. So here they import
the package that is installed, where it is of the same version.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

__all__ = ["without_archive", "worker_python"]

_COMMAND: Final = "holdfast-python"
_ARCHIVE: Final = "pyspark.zip"
_VERSION: Final = "pyspark/version.py"


def worker_python() -> str:
    """What `PYSPARK_PYTHON` is to be: this Python, through our command if it is installed."""
    command = Path(sysconfig.get_path("scripts"), _COMMAND)
    return str(command) if os.access(command, os.X_OK) else sys.executable


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
    """Go on as Python, with the same arguments."""
    if without_archive(sys.path) != sys.path:
        given = os.environ["PYTHONPATH"].split(os.pathsep)
        kept = [each for each in given if Path(each).name != _ARCHIVE]
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
