"""Asks parties how they are, each in a thread of its own: whoever is slow or gone delays nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from holdfast.console.statuses import ABSENT, Condition, StatusError, condition_of
from holdfast.wire.client import LogClient
from holdfast.wire.errors import UnreachableError, WireError
from holdfast.wire.security import Security

__all__ = ["PartyWatch", "pause_for"]

ANSWER: Final = 1.2
"""Seconds for a party to say how it is."""
EVERY: Final = 0.4
"""Seconds between two questions to one party; with ANSWER, less than the two seconds within which
the page shows that something has failed."""
MOST_ASKED: Final = 150
"""Questions to all parties together in a second."""


def pause_for(parties: int) -> float:
    """Seconds between two questions to one of so many."""
    return max(EVERY, parties / MOST_ASKED)


class PartyWatch:
    """Asks one party until it is closed, and tells what it finds."""

    def __init__(
        self,
        name: str,
        address: str,
        security: Security | None,
        tell: Callable[[str, Condition], None],
        *,
        pause: float = EVERY,
    ) -> None:
        self._name = name
        self._address = address
        self._security = security
        self._tell = tell
        self._pause = pause
        self._client: LogClient | None = None
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"console asks {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            start = time.monotonic()
            self._tell(self._name, self._ask())
            self._closing.wait(max(0.05, self._pause - (time.monotonic() - start)))
        self._hang_up()

    def _ask(self) -> Condition:
        try:
            if self._client is None:
                self._client = LogClient(self._address, self._security, timeout=ANSWER)
            return condition_of(self._client.act("status"))
        except UnreachableError:
            # gRPC says it in ever other words, and each would be a change.
            self._hang_up()
            return Condition({"state": ABSENT, "why": "does not answer; see whether it runs"})
        except (WireError, StatusError) as error:
            self._hang_up()
            return Condition({"state": ABSENT, "why": str(error)[:300]})

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        """May take as long as an answer."""
        self._closing.set()

    def join(self) -> None:
        self._thread.join(2 * ANSWER)
