"""The public face of the package: one list, which everything on it resolves and documents."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast
from harness.parts import REPOSITORY
from holdfast import verify
from holdfast.pipeline import topology

FACE = {
    "HoldfastError",
    "HoldfastSource",
    "LogClient",
    "Monoid",
    "Reader",
    "TimeWindow",
    "Told",
    "Topology",
    "__version__",
    "aggregates",
    "block_maxima",
    "errors",
    "hops",
    "local_session",
    "max_error",
    "max_leaves",
    "monoids",
    "policies",
    "progress_line",
    "read_stream",
    "serve_metrics",
    "sliding",
    "tumbling",
    "watch",
    "window",
    "windows",
}
"""Names that users rely on. A name that goes needs a line in the changelog."""

PAGE = (REPOSITORY / "docs" / "api.md").read_text()


def test_the_face_is_what_it_was() -> None:
    assert set(holdfast.__all__) == FACE


@pytest.mark.parametrize("name", sorted(FACE))
def test_every_name_is_there(name: str) -> None:
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


@pytest.mark.parametrize("name", sorted(FACE - {"__version__", "HoldfastError"}))
def test_every_name_is_documented(name: str) -> None:
    module = {"monoids": "windows.monoids", "policies": "windows.policies"}.get(name, name)
    assert f"holdfast.{module}\n" in PAGE or f"holdfast.{module}." in PAGE


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'windowed'"):
        _ = holdfast.windowed


@pytest.mark.parametrize("name", verify.__all__)
def test_verified_jobs_have_a_face(name: str) -> None:
    assert getattr(verify, name) is not None


@pytest.mark.parametrize("name", topology.__all__)
def test_topologies_have_a_face(name: str) -> None:
    assert getattr(topology, name) is not None


def test_the_face_loads_little() -> None:
    script = "import holdfast.verify, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "holdfast" in loaded
    assert "pyspark" not in loaded
