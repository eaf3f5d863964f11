"""Many keys in one window: the shard window and what it is made of."""

from holdfast.windows.shard.window import Emission, ShardStats, ShardWindow

__all__ = ["Emission", "ShardStats", "ShardWindow"]
