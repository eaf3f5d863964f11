"""Stores that fail and executors that are late, for the tests of stored windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from math import log2
from typing import Any

from holdfast.errors import StoreUnavailableError
from holdfast.windows import Amta
from holdfast.windows.stores.epochs import LEVELS, interior
from holdfast.windows.stores.store import Key, KeyRange, Store


class FlakyStore:
    """A store that cannot be reached while `away`; what was asked of it is counted."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.away = False
        self.loses_replies = False
        """Writes are done and then reported as failed."""
        self.fails_with: Exception = StoreUnavailableError("the store is away")
        self.asked = 0
        self.fetched = 0
        self.largest_delete = 0

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        self._reach()
        self.fetched += len(keys)
        return self.store.read(keys)

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        self._reach()
        deleted = self.store.write(puts, deletes)
        self.largest_delete = max(self.largest_delete, deleted)
        if self.loses_replies:
            raise self.fails_with
        return deleted

    def epochs(self, window: str) -> list[int]:
        self._reach()
        return self.store.epochs(window)

    def _reach(self) -> None:
        self.asked += 1
        if self.away:
            raise self.fails_with


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """A store at whose `fatal`-th call the process ends, before the call or after it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fatal: tuple[int, bool] | None = None
        self.calls = 0

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        return self._call(lambda: self.store.read(keys))

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        return self._call(lambda: self.store.write(puts, deletes))

    def epochs(self, window: str) -> list[int]:
        return self._call(lambda: self.store.epochs(window))

    def _call(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        fatal, after = self.fatal or (0, False)
        if self.calls == fatal and not after:
            raise Killed
        answer = call()
        if self.calls == fatal:
            raise Killed
        return answer


class LateExecutor(Executor):
    """Does its work when told to or when somebody waits for it: a slow store without threads."""

    def __init__(self) -> None:
        self.waiting: list[LateFuture] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = LateFuture(self, call)
        self.waiting.append(future)
        return future

    def work(self) -> None:
        """Do the oldest job there is."""
        if self.waiting:
            self.waiting[0].work()


class LateFuture(Future[Any]):
    def __init__(self, executor: LateExecutor, call: Callable[[], Any]) -> None:
        super().__init__()
        self._executor = executor
        self._call = call

    def work(self) -> None:
        self._executor.waiting.remove(self)
        try:
            self.set_result(self._call())
        except Exception as error:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self.work()
        return super().result(timeout)


def most_held(window: Amta[Any, Any, Any], buffer: int, cache: int) -> float:
    """How many pairs a stored window may hold locally."""
    return buffer + cache + 4 * log2(max(2, len(window)))


def pairs_needed(window: Amta[Any, Any, Any]) -> int:
    """How many pairs of a window the store has to keep, at most."""
    oldest, following = window.evicted, window.position
    return sum(
        max(0, interior(following, level) - (oldest >> level + 1)) for level in range(LEVELS)
    )
