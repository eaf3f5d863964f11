"""What a server has done, refused and failed in: counted, logged, and told to the client."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import pyarrow.flight as fl

from holdfast.errors import HoldfastError

__all__ = ["Ledger"]

logger = logging.getLogger(__name__)


class Ledger:
    """For many threads."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The address of the server, for what is logged."""
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

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
        logger.warning("%s: refused %s: %s", self.where, what, why)

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
            logger.exception("%s: %s failed", self.where, what)
            raise fl.FlightInternalError("failed inside; its log says why") from None

    @contextmanager
    def excusing(self) -> Iterator[None]:
        """A service that fails does not take the link with it."""
        try:
            yield
        except Exception:
            self.count("failed")
            logger.exception("%s: the service failed", self.where)
