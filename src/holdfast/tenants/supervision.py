"""Supervision of the engine: a Spark session and its query, started again whenever they fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from holdfast.errors import HoldfastError

__all__ = ["Engine", "Supervisor", "backoff_seconds"]

POLL_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 60.0
HEALTHY_SECONDS: Final = 60.0
"""An engine that ran for so long failed for a new reason: the back-off begins anew."""
STOP_SECONDS: Final = 60.0

logger = logging.getLogger("holdfast")


class Engine(Protocol):
    """A running session with its query."""

    def failure(self) -> str | None:
        """The reason why it does not run any more; None while it does."""

    def stop(self) -> None:
        """Release everything, whatever has failed already."""


def backoff_seconds(failures: int) -> float:
    """Pause after so many failures in a row."""
    return min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10))


class Supervisor:
    """Runs an engine in a thread of its own. The first start is the caller's: what is wrong with
    the machine or the options shows at once."""

    def __init__(
        self, start: Callable[[], Engine], pause: Callable[[int], float] = backoff_seconds
    ) -> None:
        self._start = start
        self._pause = pause
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
        assert self._engine is not None
        while not self._end.wait(POLL_SECONDS):
            try:
                reason = self._engine.failure()
            except Exception as error:
                reason = _text(error)
            if reason is not None:
                return reason
        return None

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


def _text(error: Exception) -> str:
    said = str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
    return said[:500]
