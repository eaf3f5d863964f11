"""One Spark session for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.sessions import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("holdfast tests")
    yield session
    session.stop()
