"""No file of the repository names a package index or a place on somebody's machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

# Written with brackets so that this file does not match itself.
INDEX = re.compile(
    r"[h]ttps?://\S+/(simple|packages)(/|\s|$)|[p]ypi\.org/simple|[p]ythonhosted"
    r"|[-]-(extra-)?index-url|[-]-find-links|[f]ile://"
)
MACHINE_PATH = re.compile(r"(?<![\w.])/[r]oot/|(?<![\w.])/[h]ome/\w|(?<![\w.])/[w]ork/")
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")


def repository_files() -> list[Path]:
    """Files that are tracked or would be: all that git does not ignore."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    paths = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def find_places(text: str) -> list[str]:
    return [found.group() for pattern in (INDEX, MACHINE_PATH) for found in pattern.finditer(text)]


def test_no_file_names_an_index_or_a_machine() -> None:
    paths = repository_files()
    assert REPOSITORY / "constraints.txt" in paths
    found = {
        str(path.relative_to(REPOSITORY)): places
        for path in paths
        if (places := find_places(path.read_text(errors="ignore")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "ht" + "tps://mirror.example/pypi/simple/numpy/",
        "--" + "index-url somewhere",
        "numpy @ fi" + "le:///tmp/numpy.whl",
        "cd /ro" + "ot/project",
        '"/wo' + 'rk/main"',
        "/ho" + "me/ada/.cache",
    ],
)
def test_such_places_are_found(text: str) -> None:
    assert find_places(text)


@pytest.mark.parametrize(
    "text", ["https://spark.apache.org/docs/latest/", "docs/work/", "a /rooted"]
)
def test_other_places_are_not(text: str) -> None:
    assert find_places(text) == []


@pytest.mark.parametrize("name", ["constraints.txt", "benchmarks/peers.txt"])
def test_pins_are_names_and_exact_versions(name: str) -> None:
    lines = (REPOSITORY / name).read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert len(pins) > 3
    assert [line for line in pins if not PIN.fullmatch(line)] == []
