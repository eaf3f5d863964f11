"""Windows whose interior pairs live in a key-value store, and the interface of such a store.

`holdfast.disk` has a store on disk.
"""

from holdfast.windows.stores.codec import Codec, StateCodec
from holdfast.windows.stores.store import Key, KeyRange, MemoryStore, Store, StoreStats
from holdfast.windows.stores.stored import StoredPairs, open_window

__all__ = [
    "Codec",
    "Key",
    "KeyRange",
    "MemoryStore",
    "StateCodec",
    "Store",
    "StoreStats",
    "StoredPairs",
    "open_window",
]
