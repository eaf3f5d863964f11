"""The store that can be cut off, as a fixture."""

from __future__ import annotations

import pytest

from holdfast.windows.stores.store import MemoryStore
from tests.windows.stores.faulty import FlakyStore


@pytest.fixture
def flaky() -> FlakyStore:
    return FlakyStore(MemoryStore())
