from __future__ import annotations

import pytest

from benchmarks.spark_windows.bench import fill_stretches
from benchmarks.spark_windows.data import Feed
from benchmarks.spark_windows.engines import Window
from benchmarks.spark_windows.scale import FULL

FEEDS = FULL.feeds


@pytest.mark.parametrize("feed", FEEDS, ids=str)
@pytest.mark.parametrize("size", [600, 3600])
@pytest.mark.parametrize("slide", [1, 10, 60, 600])
def test_a_long_window_is_filled_with_a_row_per_key_and_pane(
    feed: Feed, size: int, slide: int
) -> None:
    if size == slide:
        return
    fill = fill_stretches(feed, [Window(size, slide)], FULL)
    assert fill[0].start <= -size
    assert fill[-1].stop == 0
    assert [each.stop for each in fill[:-1]] == [each.start for each in fill[1:]]
    for stretch in fill:
        assert stretch.feed.keys == feed.keys
        assert stretch.feed.every <= slide
        assert stretch.step % stretch.feed.every == 0
        assert stretch.rows_per_batch <= 2 * FULL.rows_per_batch


@pytest.mark.parametrize("window", [Window(1, 1), Window(3600, 3600), Window(60, 1)], ids=str)
def test_tumbling_and_short_windows_need_no_filling(window: Window) -> None:
    assert fill_stretches(FEEDS[0], [window], FULL) == []


@pytest.mark.parametrize("feed", FEEDS, ids=str)
def test_warming_up_fills_a_minute(feed: Feed) -> None:
    assert FULL.warmups * FULL.rows_per_batch / feed.rows_per_second >= 60


def test_growing_keys_have_the_same_rows_per_second() -> None:
    assert len({feed.rows_per_second for feed in FULL.growing_keys}) == 1
