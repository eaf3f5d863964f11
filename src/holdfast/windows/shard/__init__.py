"""Many keys in one window: the shard window and what it is made of."""

from holdfast.windows.shard.emission import Emission
from holdfast.windows.shard.panes import Panes, Span
from holdfast.windows.shard.partials import Partials
from holdfast.windows.shard.window import ShardStats, ShardWindow

__all__ = ["Emission", "Panes", "Partials", "ShardStats", "ShardWindow", "Span"]
