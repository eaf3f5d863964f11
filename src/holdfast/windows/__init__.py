"""Sliding-window aggregation with programmable monoids and slide policies.

Every algorithm answers to the verbs of `Window`; `Amta` is the one to use unless another is wanted
for comparison. Pure: no Spark, no files, no clock, no randomness.
"""

from holdfast.windows import monoids, policies
from holdfast.windows.amta import Amta
from holdfast.windows.choose import aggregator
from holdfast.windows.daba import Daba
from holdfast.windows.log_mta import LogMta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import Part, Policy
from holdfast.windows.recalculation import Recalculation
from holdfast.windows.shard import ShardWindow
from holdfast.windows.stores.store import MemoryStore, Store
from holdfast.windows.stores.stored import open_window
from holdfast.windows.two_stacks import TwoStacks
from holdfast.windows.window import Window

__all__ = [
    "HOLE",
    "Amta",
    "Daba",
    "LogMta",
    "MemoryStore",
    "Monoid",
    "Part",
    "Policy",
    "Recalculation",
    "ShardWindow",
    "Store",
    "TwoStacks",
    "Window",
    "aggregator",
    "monoids",
    "open_window",
    "policies",
]
