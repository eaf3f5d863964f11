"""The machine, the code and the packages behind a figure, in words: no host name, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata

from packaging.requirements import Requirement

from harness.parts import REPOSITORY

__all__ = ["describe_machine", "git_revision", "package_versions"]


def describe_machine() -> dict[str, str | int | float]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "cpu": _cpu_model(),
        "system": _system_name(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        # Timings are only worth what else ran: above the number of cores, distrust them.
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def git_revision() -> str:
    """The commit measured, with `+changes` if more than results differ from it."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return "unknown"
    changes = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return f"{commit}+changes" if changes else commit


def package_versions() -> dict[str, str]:
    """Installed versions of what Holdfast needs at run time, extra `fast` included."""
    versions = {"holdfast": metadata.version("holdfast")}
    for requirement in map(Requirement, metadata.requires("holdfast") or ()):
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": "fast"}):
            try:
                versions[requirement.name] = metadata.version(requirement.name)
            except metadata.PackageNotFoundError:
                versions[requirement.name] = "not installed"
    return versions


def _cpu_model() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
