"""The layer rule of docs/architecture.md: the shell imports the pure layer, never the other way."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

PACKAGE = Path(holdfast.__file__).parent

PURE = {
    "aggregates",
    "errors",
    "intervals",
    "time_windows",
    "tuples",
    "windows",
    "crdt",
    "protocol",
}
SIM = {"sim"}

# What would bring Spark, sockets, a clock, randomness or threads into the pure layer.
# fmt: off
IMPURE = {
    "pyspark", "pyarrow", "pandas", "lmdb", "typer", "rich", "matplotlib",
    "socket", "ssl", "asyncio", "selectors", "http", "urllib",
    "time", "random", "secrets", "uuid",
    "os", "subprocess", "threading", "multiprocessing", "concurrent",
}
# fmt: on


def find_imports(
    module: str, source: str, *, is_package: bool = False
) -> Iterator[tuple[str, bool]]:
    """Every module imported anywhere in the source, and whether it is only for type checking."""
    tree = ast.parse(source)
    type_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                anchor = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*anchor, base] if base else anchor)
            # `from holdfast import windows` imports holdfast.windows.
            names = (
                [f"{base}.{alias.name}" for alias in node.names] if base == "holdfast" else [base]
            )
        for name in names:
            yield name, id(node) in type_only


def find_violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What in this module's imports breaks the layer rule."""
    part = part_of(module)
    violations = []
    for imported, type_only in find_imports(module, source, is_package=is_package):
        root = imported.partition(".")[0]
        target = part_of(imported)
        if root == "holdfast":
            if target == "cli" and part not in ("cli", "__main__"):
                violations.append(f"{module} imports {imported}: nobody but __main__ imports cli")
            elif part in PURE and target not in PURE:
                violations.append(f"{module} imports {imported}: pure imports only pure")
            elif part in SIM and target not in PURE | SIM:
                violations.append(f"{module} imports {imported}: sim imports only pure and sim")
        elif part in PURE and root in IMPURE and not type_only:
            violations.append(f"{module} imports {imported}, which the pure layer may not")
    return violations


def part_of(module: str) -> str:
    """The part of holdfast a module belongs to: holdfast.windows.amta is of `windows`."""
    return module.partition(".")[2].partition(".")[0]


def module_name(path: Path) -> str:
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def test_every_module_keeps_to_its_layer() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    checked = {part_of(module_name(path)) for path in paths}
    assert {"errors", "windows", "cli"} <= checked
    violations = [
        violation
        for path in paths
        for violation in find_violations(
            module_name(path), path.read_text(), is_package=path.name == "__init__.py"
        )
    ]
    assert violations == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("holdfast.windows.amta", "import pyspark"),
        ("holdfast.windows.amta", "import pyarrow.flight as flight"),
        ("holdfast.windows.amta", "from time import monotonic"),
        ("holdfast.windows.amta", "def late():\n    import random"),
        ("holdfast.windows.amta", "try:\n    import lmdb\nexcept ImportError:\n    lmdb = None"),
        ("holdfast.windows.amta", "from concurrent.futures import Future"),
        ("holdfast.windows.amta", "import holdfast.spark"),
        ("holdfast.windows.amta", "from holdfast import spark"),
        ("holdfast.windows.amta", "from holdfast.spark.windows import windowed"),
        ("holdfast.windows.amta", "from ..spark import windows"),
        ("holdfast.windows.amta", "from .. import sim"),
        ("holdfast.tuples", "from . import wire"),
        (
            "holdfast.protocol.gates",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n import holdfast.spark",
        ),
        ("holdfast.sim.network", "from holdfast.wire import server"),
        ("holdfast.sim.network", "from ..edge import child"),
        ("holdfast.spark.source", "from holdfast.cli import app"),
        ("holdfast.spark.source", "from holdfast import cli"),
    ],
)
def test_the_rule_is_seen_to_be_broken(module: str, source: str) -> None:
    assert len(find_violations(module, source)) == 1


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert find_violations("holdfast.windows", "from .amta import Amta", is_package=True) == []
    assert find_violations("holdfast.windows", "from ..cli import app", is_package=True) != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("holdfast.windows.amta", "import numpy as np\nimport numba\nimport _datasketches"),
        ("holdfast.windows.amta", "from holdfast.errors import WindowError\nfrom . import monoids"),
        (
            "holdfast.windows.stores.store",
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from concurrent.futures import Executor",
        ),
        (
            "holdfast.sim.network",
            "from holdfast.protocol import gates\nfrom holdfast.sim import clock",
        ),
        ("holdfast.spark.source", "import time\nimport pyspark\nfrom holdfast.wire import client"),
        ("holdfast.cli", "import typer\nfrom holdfast import doctor"),
    ],
)
def test_what_the_rule_allows(module: str, source: str) -> None:
    assert find_violations(module, source) == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("holdfast", {"pyspark", "pyarrow", "pandas", "numpy"}),
        ("holdfast.windows", {"pyspark", "pyarrow", "pandas", "lmdb"}),
        ("holdfast.cli", {"pyspark", "pyarrow", "pandas", "numpy"}),
    ],
)
def test_imports_are_cheap(module: str, absent: set[str]) -> None:
    script = f"import {module}, sys; print(*sys.modules, sep='\\n')"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    assert "holdfast" in loaded
    assert loaded & absent == set()
