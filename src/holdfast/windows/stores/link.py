"""Link of a window to its store: its name there, its encoding, its threads.

Used by `writer` and `readahead`. All state stays with the thread that uses the window: a job in an
executor gets what it needs as arguments and gives back a result, so nothing here needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import StoreCorruptError
from holdfast.windows.pairs import Pair
from holdfast.windows.stores.codec import Codec, seal, unseal
from holdfast.windows.stores.store import Key, Store, StoreStats

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["Job", "Link"]

T = TypeVar("T")


@dataclass(frozen=True)
class Link:
    """What a window and all its forks share on the way to the store."""

    store: Store
    window: str
    codec: Codec
    executor: Executor | None = None
    stats: StoreStats = field(default_factory=StoreStats)

    def key(self, epoch: int, level: int, position: int) -> Key:
        return Key(self.window, epoch, level, position)

    def encode(self, value: Any) -> bytes:
        return seal(self.codec.encode(value))

    def load(self, keys: Sequence[Key]) -> list[Pair[Any] | None]:
        """The pairs under these keys; None where there is none."""
        return [
            None if record is None else self._decode(key, record)
            for key, record in zip(keys, self.store.read(keys), strict=True)
        ]

    def start(self, call: Callable[[], T]) -> Job[T]:
        return Job(self.executor, call)

    def damage(self, key: Key, what: object) -> StoreCorruptError:
        """The error to raise for a pair that is not as this window wrote it."""
        return StoreCorruptError(
            f"window {key.window!r}, epoch {key.epoch}, level {key.level}, "
            f"position {key.position}: {what}. If another process had the window open, close "
            "one of them; if the store is damaged, feed a window of another name from the start"
        )

    def _decode(self, key: Key, record: bytes) -> Pair[Any]:
        try:
            older, newer = self.codec.decode(unseal(record))
        except (StoreCorruptError, TypeError, ValueError) as error:
            raise self.damage(key, error) from error
        return older, newer


class Job(Generic[T]):
    """One call to the store; without an executor it is over when the job is made."""

    def __init__(self, executor: Executor | None, call: Callable[[], T]) -> None:
        self._future: Future[T] | None = None
        self._results: list[T] = []
        self._error: Exception | None = None
        if executor is not None:
            self._future = executor.submit(call)
            return
        try:
            self._results.append(call())
        except Exception as error:
            self._error = error

    def done(self) -> bool:
        return self._future is None or self._future.done()

    def result(self) -> T:
        """What the call returned, or what it raised; waits for its end."""
        if self._future is not None:
            return self._future.result()
        if self._error is not None:
            raise self._error
        return self._results[0]
