"""What a server has done, refused and failed in: counted, logged, and told to the client."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

import pyarrow.flight as fl

from holdfast.errors import HoldfastError

__all__ = ["Ledger"]

QUIET_S: Final = 10.0
"""Between two lines of the log on one kind of thing: a flood of calls is none of lines."""
MOST_REASONS: Final = 64
"""That are told apart; callers may make up others."""

logger = logging.getLogger(__name__)


class Ledger:
    """For many threads."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The address of the server, for what is logged."""
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._logged: dict[tuple[str, str], float] = {}
        """When a kind of thing was logged last."""
        self._unlogged: Counter[tuple[str, str]] = Counter()
        """How often it was not, since then."""

    @property
    def counts(self) -> Counter[str]:
        with self._lock:
            return Counter(self._counts)

    @property
    def refused(self) -> Counter[str]:
        with self._lock:
            return Counter(self._refused)

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self._counts[what] += by

    def refuse(self, what: str, why: object) -> None:
        """Count and log it."""
        with self._lock:
            self._refused[what] += 1
        if (more := self._turn_to_log(what, str(why))) is not None:
            logger.warning("%s: refused %s: %s%s", self.where, what, why, more)

    def _turn_to_log(self, kind: str, why: str) -> str | None:
        """How many were not logged, for people; None if this one is not to be either."""
        now = time.monotonic()
        with self._lock:
            is_known = (kind, why) in self._logged
            what = (kind, why if is_known or len(self._logged) < MOST_REASONS else "")
            if now < self._logged.get(what, float("-inf")) + QUIET_S:
                self._unlogged[what] += 1
                return None
            self._logged[what] = now
            more = self._unlogged.pop(what, 0)
        return f" (and {more} more since the last line)" if more else ""

    @contextmanager
    def answering(self, what: str) -> Iterator[None]:
        """Errors as a client may see them. Only Flight's own cross without a traceback in them."""
        try:
            yield
        except HoldfastError as error:
            self.refuse(what, error)
            raise fl.FlightServerError(str(error)[:300]) from None
        except Exception:
            self.count("failed")
            if (more := self._turn_to_log(f"{what} failed", "")) is not None:
                logger.exception("%s: %s failed%s", self.where, what, more)
            raise fl.FlightInternalError("failed inside; its log says why") from None

    @contextmanager
    def excusing(self) -> Iterator[None]:
        """A service that fails does not take the link with it."""
        try:
            yield
        except Exception:
            self.count("failed")
            logger.exception("%s: the service failed", self.where)
