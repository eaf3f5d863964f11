"""Checks of the machine: Python, Java and the packages of pyproject.toml.

`holdfast doctor` prints it. Packages are looked up, never imported.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table

from holdfast.errors import HoldfastError

__all__ = [
    "Finding",
    "MachineError",
    "examine_machine",
    "is_healthy",
    "print_findings",
    "require_java",
]

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


class MachineError(HoldfastError):
    """This machine lacks something; `holdfast doctor` looks at all of it."""


@dataclass(frozen=True)
class Finding:
    """One thing looked for: what is there (None: nothing), what is needed, how to mend it."""

    name: str
    found: str | None
    needed: str
    fits: bool
    remedy: str
    required: bool = True


def examine_machine() -> list[Finding]:
    return [examine_python(), examine_java(), *examine_packages()]


def is_healthy(findings: Iterable[Finding]) -> bool:
    return all(finding.fits for finding in findings if finding.required)


def examine_python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    return Finding(
        name="Python",
        found=".".join(map(str, version)),
        needed=">=" + ".".join(map(str, OLDEST_PYTHON)),
        fits=version >= OLDEST_PYTHON,
        remedy="create the environment with a newer Python: PYTHON=python3.11 make clean test",
    )


def examine_java(java: str | None = None) -> Finding:
    """Examine the `java` that Spark would start: the one of JAVA_HOME, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = java_version(java or (f"{home}/bin/java" if home else "java"))
    remedy = "install Java 17, on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless"
    if home:
        remedy += " (and mend or unset JAVA_HOME, which Spark looks at first)"
    return Finding(
        name="Java",
        found=found,
        needed=f">={OLDEST_JAVA}",
        fits=found is not None and int(found.split(".")[0]) >= OLDEST_JAVA,
        remedy=remedy,
    )


def require_java() -> None:
    """Raise if Spark could not start here for want of Java."""
    java = examine_java()
    if not java.fits:
        found = java.found or "none"
        raise MachineError(f"Spark needs Java {java.needed}, found {found}; {java.remedy}")


def java_version(java: str) -> str | None:
    """The version a `java` command reports, None if it cannot be run or reports none."""
    if shutil.which(java) is None:
        return None
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d[\d.]*)', printed.stderr)
    return match.group(1).rstrip(".") if match else None


def installed_version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine_packages(
    requirements: Iterable[str] | None = None,
    look_up: Callable[[str], str | None] = installed_version,
) -> list[Finding]:
    """Compare what is installed with what our own package metadata asks for (extra `fast` too)."""
    asked = metadata.requires("holdfast") if requirements is None else requirements
    findings = []
    for requirement in map(Requirement, asked or ()):
        is_runtime = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        is_fast = requirement.marker is not None and requirement.marker.evaluate({"extra": "fast"})
        if not is_runtime and not is_fast:
            continue
        version = look_up(requirement.name)
        findings.append(
            Finding(
                name=requirement.name,
                found=version,
                needed=str(requirement.specifier) or "any",
                fits=version is not None and requirement.specifier.contains(version),
                remedy=f'pip install "{requirement.name}{requirement.specifier}"',
                required=is_runtime,
            )
        )
    return findings


def print_findings(findings: list[Finding], console: Console) -> None:
    table = Table("", "what", "found", "needed")
    for finding in findings:
        mark = "[green]ok[/]"
        if not finding.fits:
            lack = "missing" if finding.found is None else "wrong version"
            mark = f"[red]{lack}[/]" if finding.required else f"[yellow]{lack}, optional[/]"
        table.add_row(mark, finding.name, finding.found or "none", finding.needed)
    console.print(table)
    for finding in findings:
        if not finding.fits:
            why = "" if finding.required else " (optional, makes windows of numbers faster)"
            console.print(
                f"{finding.name}{why}: {finding.remedy}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    if is_healthy(findings):
        console.print("This machine has what Holdfast needs.")
