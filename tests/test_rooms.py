"""The rooms of docs/architecture.md: who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import holdfast
from harness.parts import REPOSITORY

PACKAGE = Path(holdfast.__file__).parent

CORE = {"errors", "intervals", "time_windows", "aggregates", "windows"}
"""Pure rooms at the top level; `crdt` and every `machine` are pure as well."""
INFRASTRUCTURE = {"config", "storage", "transport", "runtime"}
FEATURES = {"pipeline", "edge", "verify", "tenants", "federation"}
FRONTS = {"console", "cli", "demo", "shadow"}
"""Rooms that show or start features; nothing imports them."""

# What would bring Spark, sockets, a clock, randomness or threads into a pure room.
# fmt: off
IMPURE = {
    "pyspark", "pyarrow", "pandas", "lmdb", "typer", "rich", "matplotlib",
    "socket", "ssl", "asyncio", "selectors", "http", "urllib",
    "time", "random", "secrets", "uuid",
    "os", "subprocess", "threading", "multiprocessing", "concurrent",
}
# fmt: on

KNOWN: Mapping[str, set[str]] = {
    # The messages of links are mirrored here; they belong to whoever defines them.
    "transport.codec": {"pipeline"},
    # Stages of a topology are the tasks of a federation.
    "federation.process.stages": {"pipeline"},
    "federation.process.running": {"pipeline"},
    # The root of an edge is a source of a topology.
    "pipeline.sources.edge": {"edge"},
}
"""Imports that break a rule, by module. The list may only become shorter: one that is not needed
any more fails the test."""


def room_of(module: str) -> str:
    """The top-level room of a module: `holdfast.windows.amta` is of `windows`."""
    return module.partition(".")[2].partition(".")[0]


def is_pure(module: str) -> bool:
    parts = module.split(".")[1:]
    return bool(parts) and (
        parts[0] in CORE | {"crdt", "groups"}
        or "machine" in parts
        or parts[:2] == ["pipeline", "gates"]
        or parts[:2] == ["runtime", "adjusted_clock"]
    )


def find_imports(
    module: str, source: str, *, is_package: bool = False
) -> Iterator[tuple[str, bool, bool]]:
    """Every imported name, whether only for type checking, and whether when a function runs."""
    tree = ast.parse(source)
    type_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for statement in block.body
        for node in ast.walk(statement)
    }
    lazy = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
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
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            yield name, id(node) in type_only, id(node) in lazy


def find_violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Imports of a module that break a rule."""
    room, short = room_of(module), module.partition(".")[2]
    violations = []
    for imported, type_only, _ in find_imports(module, source, is_package=is_package):
        root, target = imported.partition(".")[0], room_of(imported)
        if root == "simulator":
            violations.append(f"{module} imports {imported}: the package does not ship it")
        elif root != "holdfast":
            if is_pure(module) and root in IMPURE and not type_only:
                violations.append(f"{module} imports {imported}, which a pure room may not")
        elif target in KNOWN.get(short, set()):
            continue
        elif target in FRONTS and room not in FRONTS | {"__main__"}:
            violations.append(f"{module} imports {imported}: nothing imports a front")
        elif is_pure(module) and not is_pure(imported):
            violations.append(f"{module} imports {imported}: pure rooms import only pure ones")
        elif room in INFRASTRUCTURE | {"groups"} and target in FEATURES | {"spark"}:
            violations.append(f"{module} imports {imported}: infrastructure imports no feature")
        elif room in FEATURES and target in FEATURES - {room}:
            violations.append(f"{module} imports {imported}: features do not import each other")
        elif room == "spark" and target in FEATURES:
            violations.append(f"{module} imports {imported}: DataFrame windows import no feature")
    return violations


def module_name(path: Path) -> str:
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def modules() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def test_every_module_keeps_to_its_room() -> None:
    found = modules()
    assert {room_of(name) for name in found} >= CORE | INFRASTRUCTURE | FEATURES | {"groups"}
    violations = [
        violation
        for name, path in found.items()
        for violation in find_violations(
            name, path.read_text(), is_package=path.name == "__init__.py"
        )
    ]
    assert violations == []


def test_known_exceptions_are_needed() -> None:
    found = modules()
    for short, rooms in KNOWN.items():
        path = found[f"holdfast.{short}"]
        imported = {
            room_of(name)
            for name, _, _ in find_imports(f"holdfast.{short}", path.read_text())
            if name.startswith("holdfast")
        }
        assert rooms <= imported, f"{short}: take it off the list"


def test_no_packages_import_each_other_in_a_circle() -> None:
    """At import time; between modules and between top-level rooms."""
    found = modules()
    for name_of in (lambda name: name, room_of):
        graph: dict[str, set[str]] = defaultdict(set)
        for name, path in found.items():
            for imported, type_only, lazy in find_imports(
                name, path.read_text(), is_package=path.name == "__init__.py"
            ):
                if imported not in found:
                    imported = imported.rpartition(".")[0]
                known = imported in found and imported != "holdfast"
                if known and not type_only and not lazy and name_of(name) != name_of(imported):
                    short = f"{name}"[len("holdfast.") :]
                    if room_of(imported) not in KNOWN.get(short, set()):
                        graph[name_of(name)].add(name_of(imported))
        assert find_circle(graph) == []


def find_circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(sorted(graph.get(start, ()))))]
        path.append(start)
        while stack and start not in done:
            node, following = stack[-1]
            step = next(following, None)
            if step is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif step in path:
                return [*path[path.index(step) :], step]
            elif step not in done:
                path.append(step)
                stack.append((step, iter(sorted(graph.get(step, ())))))
    return []


def test_a_circle_is_found() -> None:
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


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
        ("holdfast.windows.amta", "from holdfast.spark.dataframe import window"),
        ("holdfast.windows.amta", "from ..spark import dataframe"),
        ("holdfast.pipeline.machine.node", "from ..process import replica"),
        ("holdfast.pipeline.machine.tuples", "from holdfast import transport"),
        ("holdfast.edge.machine.child", "import socket"),
        (
            "holdfast.pipeline.gates",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n import holdfast.spark",
        ),
        ("holdfast.groups.membership", "from holdfast.edge.machine import child"),
        ("holdfast.storage.journal", "from holdfast.verify.process import messages"),
        ("holdfast.edge.process.hub", "from holdfast.pipeline.machine import messages"),
        ("holdfast.spark.dataframe", "from holdfast.pipeline.stages import rows"),
        ("holdfast.pipeline.process.replica", "import simulator.world"),
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
        ("holdfast.edge.machine.child", "from holdfast.groups import Members"),
        ("holdfast.pipeline.process.replica", "import time\nfrom holdfast.transport import client"),
        ("holdfast.pipeline.stages.query", "import pyspark\nfrom holdfast.spark import keys"),
        ("holdfast.cli", "import typer\nfrom holdfast import doctor"),
    ],
)
def test_what_the_rule_allows(module: str, source: str) -> None:
    assert find_violations(module, source) == []


@pytest.mark.parametrize("path", sorted((REPOSITORY / "simulator").rglob("*.py")), ids=str)
def test_the_simulator_drives_machines_alone(path: Path) -> None:
    """No process, Spark or socket takes part in a simulation; campaigns around it may."""
    within = path.relative_to(REPOSITORY / "simulator")
    if within.parts[0] in ("campaign", "__main__.py"):
        return
    for name, _, _ in find_imports("simulator.any", path.read_text()):
        root = name.partition(".")[0]
        assert root != "holdfast" or is_pure(name), f"{within} imports {name}"
        assert root not in {"pyspark", "pyarrow", "socket", "subprocess"}, f"{within}: {name}"


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
