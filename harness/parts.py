"""Parts: the modules of a folder that a user runs by name, such as `make bench PART=windows`.

A name has hyphens where its module has underscores: `spark-windows` is `spark_windows.py`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import subprocess
from pathlib import Path
from types import ModuleType

__all__ = [
    "REPOSITORY",
    "UnknownPartError",
    "load_part",
    "part_names",
    "prepare_part",
    "uses_spark",
]

REPOSITORY = Path(__file__).resolve().parent.parent


class UnknownPartError(Exception):
    """No part has the name that was asked for; the message lists those there are."""


def part_names(folder: ModuleType) -> list[str]:
    modules = pkgutil.iter_modules(folder.__path__)
    return sorted(module.name.replace("_", "-") for module in modules)


def load_part(folder: ModuleType, name: str) -> ModuleType:
    names = part_names(folder)
    if name not in names:
        raise UnknownPartError(_explain_unknown(folder, name, names))
    return importlib.import_module(f"{folder.__name__}.{name.replace('-', '_')}")


def uses_spark(part: ModuleType) -> bool:
    """Whether it says `USES_SPARK = True`."""
    return getattr(part, "USES_SPARK", False)


def prepare_part(part: ModuleType) -> None:
    """See to what a part needs beyond Python: Java, when it uses Spark."""
    if uses_spark(part):
        subprocess.run([REPOSITORY / "scripts" / "require-java.sh"], check=True)


def _explain_unknown(folder: ModuleType, name: str, names: list[str]) -> str:
    where = folder.__name__.replace(".", "/")
    if not names:
        return f"there is no part {name!r}: {where} has none yet"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"there is no part {name!r} in {where}{hint}; there are: {', '.join(names)}"
