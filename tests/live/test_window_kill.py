"""A window on disk resumes after kill -9 as if nothing had happened; `make soak` has many more."""

from __future__ import annotations

import pytest

from soak.campaigns import window_kill


@pytest.mark.parametrize("seed", [8, 10, 11, 28, 60, 66])
def test_a_killed_window_resumes_with_the_same_results(seed: int) -> None:
    assert "kills" in window_kill.run(seed)
