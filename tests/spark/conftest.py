"""One Spark session for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.sessions import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # A task that fails is tried again, as everywhere but in a session on one machine.
    session = local_session("holdfast tests", master="local[*, 2]")
    yield session
    session.stop()
