"""A listener that no session knows: the tests send it reports themselves."""

import pytest

from holdfast.spark.metrics import WindowMetrics


@pytest.fixture
def metrics() -> WindowMetrics:
    return WindowMetrics()
