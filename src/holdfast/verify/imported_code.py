"""Files of Python code that a job's file imports, and those that these import in turn.

They are found in the text, without running it. Left out is what is installed: the standard library,
`site-packages`, Spark and Holdfast itself.
"""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.verify.job_files import parse_code, read_code

__all__ = ["imported_files"]

_STANDARD: Final = tuple(Path(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib"))
_PACKAGES: Final = {"site-packages", "dist-packages"}
_INSTALLED: Final = {"holdfast", "py4j", "pyspark"}
"""Wherever they are."""


def imported_files(file: Path, code: bytes) -> tuple[str, ...]:
    """In order of their names. Modules are looked for as replicas do: in this process's folder,
    then along `sys.path`."""
    if file.suffix != ".py":
        return ()
    found: set[str] = set()
    waiting = list(_specs_in(parse_code(file, code), ""))
    while waiting:
        spec = waiting.pop()
        origin = spec.origin
        if origin is None or origin in found or not _is_own(Path(origin)):
            continue
        found.add(origin)
        is_package = spec.submodule_search_locations is not None
        waiting += _specs_of(Path(origin), spec.name if is_package else spec.parent or "")
    return tuple(sorted(found))


def _specs_of(path: Path, package: str) -> Iterator[ModuleSpec]:
    if path.suffix != ".py":
        return
    try:
        tree = parse_code(path, read_code(path))
    except InvalidArgumentError:
        # Whoever imports it says so, if that is not expected there.
        return
    yield from _specs_in(tree, package)


def _specs_in(tree: ast.Module, package: str) -> Iterator[ModuleSpec]:
    for name in dict.fromkeys(_names_in(tree, package)):
        yield from _find(name)


def _names_in(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                try:
                    base = resolve_name("." * node.level + base, package)
                except ImportError:
                    continue
            yield base
            # Any of them may be a module.
            yield from (f"{base}.{each.name}" for each in node.names)


def _find(name: str) -> Iterator[ModuleSpec]:
    """Of a module and of the packages that it is in, as far as there are files."""
    locations: Sequence[str] | None = [str(Path.cwd()), *sys.path]
    parts = name.split(".")
    if parts[0] in _INSTALLED:
        return
    for count in range(1, len(parts) + 1):
        if locations is None:
            return
        spec = PathFinder.find_spec(".".join(parts[:count]), list(locations))
        if spec is None:
            return
        yield spec
        locations = spec.submodule_search_locations


def _is_own(path: Path) -> bool:
    path = path.absolute()
    is_standard = any(map(path.is_relative_to, _STANDARD))
    return path.is_file() and not is_standard and not _PACKAGES.intersection(path.parts)
