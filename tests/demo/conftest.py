from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.demo import failures, screen
from tests.demo.rig import Actor


@pytest.fixture
def actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Actor:
    actor = Actor(tmp_path)
    monkeypatch.setattr(failures, "now", actor.now)
    monkeypatch.setattr(screen, "LOOK", 0.001)
    return actor
