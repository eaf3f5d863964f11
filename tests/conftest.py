"""Settings for every test.

Hypothesis runs the same examples every time, so that a red run is red for everyone. To look for new
ones: HYPOTHESIS_PROFILE=explore make test

JVMs take the classes that `make test` has archived: a session starts with half the work.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from harness.parts import REPOSITORY
from harness.processes import JAVA_OPTIONS
from holdfast.spark.sessions import SHORT_LIVED, local_session

CLASSES = REPOSITORY / ".build" / "spark-classes.jsa"

if CLASSES.exists():
    os.environ[JAVA_OPTIONS] = f'{SHORT_LIVED} "-XX:SharedArchiveFile={CLASSES}"'

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", settings.get_profile("repeatable"), derandomize=False, max_examples=1000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture
def make_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a package of parts, as benchmarks.parts and soak.campaigns are, from sources by name."""
    made: list[str] = []

    def make(**sources: str) -> ModuleType:
        made.append(f"made_up_parts_{len(made)}")
        folder = tmp_path / made[-1]
        folder.mkdir()
        (folder / "__init__.py").touch()
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(made[-1])

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] in made]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a process.

    Its workers find `tests` from where it was started: tests that change the folder before they
    start a session of their own ask for this one first.
    """
    # A task that fails is tried again, as everywhere but in a session on one machine.
    session = local_session("holdfast tests", master="local[*, 2]")
    yield session
    session.stop()
