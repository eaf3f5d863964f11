"""Supervision of the engine: a Spark session and its query, started again whenever they fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Protocol

from holdfast.errors import HoldfastError

__all__ = ["Engine", "Supervisor", "backoff_seconds"]

POLL_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 60.0
HEALTHY_SECONDS: Final = 60.0
"""An engine that ran for so long failed for a new reason: the back-off begins anew."""
STOP_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 120.0
"""An engine that takes longer to say how it does hangs."""
HANGS_SECONDS: Final = 600.0
"""An engine that stores nothing for so long, while entries wait, hangs too."""

logger = logging.getLogger("holdfast")


class Engine(Protocol):
    """A running session with its query."""

    def failure(self) -> str | None:
        """The reason why it does not run any more; None while it does."""

    def kill(self) -> None:
        """End it at once, whatever it does; what was asked of it then fails."""

    def stop(self) -> None:
        """Release everything, whatever has failed already."""


def backoff_seconds(failures: int) -> float:
    """Pause after so many failures in a row."""
    return min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10))


class Supervisor:
    """Runs an engine in a thread of its own. The first start is the caller's: what is wrong with
    the machine or the options shows at once."""

    def __init__(
        self,
        start: Callable[[], Engine],
        pause: Callable[[int], float] = backoff_seconds,
        waited: Callable[[], float] = lambda: 0.0,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        """`waited`: the seconds for which entries have waited and nothing was stored."""
        self._start = start
        self._pause = pause
        self._waited = waited
        self._answer_seconds = answer_seconds
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._reason = "it has not been started"
        self._last_failure = ""
        self._restarts = 0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        self._running(self._start())
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._note("the server ends")
        if self._engine is not None:
            self._engine.stop()

    def trouble(self) -> str:
        """The reason why nothing is calculated now; empty while the engine runs."""
        return self._reason

    def told(self) -> dict[str, Any]:
        """State of the engine, for /health."""
        with self._lock:
            return {
                "state": "restarting" if self._reason else "running",
                "reason": self._reason,
                "restarts": self._restarts,
                "last_failure": self._last_failure,
            }

    def _run(self) -> None:
        failures = 0
        while not self._end.is_set():
            began = time.monotonic()
            reason = self._watch()
            if reason is None:
                return
            failures = 1 if time.monotonic() - began > HEALTHY_SECONDS else failures + 1
            self._failed(reason)
            while not self._end.wait(self._pause(failures)):
                try:
                    self._running(self._start())
                    break
                except Exception as error:
                    # Nothing that Spark raises may end the supervision.
                    failures += 1
                    self._failed(f"Spark cannot be started: {_text(error)}")

    def _watch(self) -> str | None:
        """The failure of the engine; None when asked to end."""
        engine, began = self._engine, time.monotonic()
        assert engine is not None
        # In a thread of its own: what is asked of a JVM that hangs comes back when that ends.
        asking = ThreadPoolExecutor(1, "engine-state")
        try:
            while not self._end.wait(POLL_SECONDS):
                reason = self._state(asking, engine)
                waited = min(self._waited(), time.monotonic() - began)
                if reason is None and waited > HANGS_SECONDS:
                    reason = _ended(engine, f"nothing was stored for {waited:.0f} seconds")
                if reason is not None:
                    return reason
            return None
        finally:
            asking.shutdown(wait=False, cancel_futures=True)

    def _state(self, asking: ThreadPoolExecutor, engine: Engine) -> str | None:
        try:
            return asking.submit(engine.failure).result(self._answer_seconds)
        except TimeoutError:
            return _ended(engine, f"Spark has not answered for {self._answer_seconds:.0f} seconds")
        except Exception as error:
            return _text(error)

    def _running(self, engine: Engine) -> None:
        with self._lock:
            if self._reason and self._last_failure:
                self._restarts += 1
            self._engine, self._reason = engine, ""

    def _failed(self, reason: str) -> None:
        logger.error("the engine has failed and is started again: %s", reason)
        self._note(reason[:500])
        with self._lock:
            engine, self._engine = self._engine, None
            self._last_failure = reason[:500]
        if engine is not None:
            try:
                engine.stop()
            except Exception:
                logger.exception("the engine could not be stopped in order")

    def _note(self, reason: str) -> None:
        with self._lock:
            self._reason = reason


def _ended(engine: Engine, reason: str) -> str:
    with suppress(OSError):
        engine.kill()
    return f"{reason}; its JVM was ended"


def _text(error: Exception) -> str:
    said = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    return said[:500]
