from __future__ import annotations

import pytest

from benchmarks.approximate.scale import FULL, SHORT, SMOKE, Scale, chosen_scale


@pytest.mark.parametrize("scale", [FULL, SHORT, SMOKE], ids=["full", "short", "smoke"])
def test_every_scale_reaches_the_steady_state(scale: Scale) -> None:
    assert scale.updates > 2 * scale.window + 1
    hop = scale.hop_window // 3
    assert scale.hop_updates > 31 * hop + 2 * scale.hop_window
    assert all(30 * block + scale.peak_window < scale.updates for block in scale.blocks)


def test_leaves_keep_their_share_of_the_window() -> None:
    assert FULL.leaves(1_000_000, FULL.window) == 500_000
    assert FULL.leaves(100, FULL.hop_window) == 1


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_BENCH", raising=False)
    assert chosen_scale() is FULL
    monkeypatch.setenv("HOLDFAST_BENCH", "short")
    assert chosen_scale() is SHORT
