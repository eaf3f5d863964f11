"""What the demonstration's Spark tasks do: all windows of one shard of sensors.

A module of its own, so that a Python worker loads no more than this.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from holdfast.windows import ShardWindow
from holdfast.windows import monoids as m

__all__ = ["SCHEMA", "SIZE", "SLIDE", "windows_of_shard"]

SIZE, SLIDE = 600, 10
"""A ten-minute window that slides every ten seconds."""
SCHEMA = "sensor long, start long, end long, n long, hottest double, mean double"


def windows_of_shard(rows: pd.DataFrame) -> pd.DataFrame:
    """The windows of one shard's rows, as rows of `SCHEMA`."""
    window = ShardWindow(
        {"n": (m.count, None), "hottest": (m.max, "celsius"), "mean": (m.mean, "celsius")},
        size=SIZE,
        slide=SLIDE,
    )
    window.add(rows["at"].to_numpy(), rows["sensor"].to_numpy(), celsius=rows["celsius"].to_numpy())
    end_of_time = int(rows["at"].max()) + SIZE + SLIDE
    emissions = window.advance(end_of_time)
    sizes = [len(emission) for emission in emissions]
    columns = {
        name: [emission[name] for emission in emissions] for name in ("n", "hottest", "mean")
    }
    return pd.DataFrame(
        {
            "sensor": np.concatenate([emission.keys for emission in emissions]),
            "start": np.repeat([emission.start for emission in emissions], sizes),
            "end": np.repeat([emission.end for emission in emissions], sizes),
            **{name: np.concatenate(parts) for name, parts in columns.items()},
        }
    )
