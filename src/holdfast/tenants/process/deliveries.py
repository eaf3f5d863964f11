"""Actions: webhooks and messages, each at least once, with an id.

Calls lie in the store from the transaction that set them off. What fails is tried again, later and
later, and in the end given up and shown.
"""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.tenants.machine.definitions import full_path
from holdfast.tenants.machine.documents import Action, ServiceObject
from holdfast.tenants.process.engine.storing import insert_calls
from holdfast.tenants.process.service import Service
from holdfast.tenants.process.store.database import FOREVER, Work

PATIENCE: Final = 10.0
"""Seconds for a webhook to answer."""
TRIES: Final = 8
TURN_SECONDS: Final = 2.0
"""Of a tenant, until others have theirs."""
LONGEST_WAIT: Final = 2 ** (TRIES - 2) * 1_000_000
"""Microseconds before something is tried again, at most: what is due later than that was noted when
the clock was ahead, and is due now."""
LOOK: Final = 0.5
DEEPEST: Final = 5
"""Composite actions inside of each other."""
AT_ONCE: Final = 20
IS_DUE: Final = "state = 'due' AND (due <= ? OR due > ?)"
WORKERS: Final = 8

logger = logging.getLogger(__name__)


class Deliveries:
    """A thread that sees what is due, and others that make the calls: at most one for a tenant, so
    that nobody waits for the slow servers of others."""

    def __init__(self, service: Service, send: Callable[[str, bytes], None] | None = None) -> None:
        """`send`: a topic and what to publish there, if there is a broker."""
        self._service = service
        self._send = send
        self._end = threading.Event()
        self._bell = threading.Event()
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._silence = service.listen(lambda _: self._bell.set())
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="delivery")
        self._thread = threading.Thread(target=self._run, name="deliveries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._silence()
        self._end.set()
        self._bell.set()
        self._thread.join(PATIENCE)
        self._workers.shutdown(cancel_futures=True)

    def _run(self) -> None:
        while not self._end.is_set():
            try:
                for tenant in self._due():
                    self._workers.submit(self._deliver_quietly, tenant)
            except Exception:
                logger.exception("deliveries: will be tried again")
            self._bell.wait(LOOK)
            self._bell.clear()

    def _due(self) -> list[str]:
        """Tenants that have something to be done and that nobody works for; now somebody does."""
        rows = self._service.database.rows(
            f"SELECT DISTINCT tenant FROM calls WHERE {IS_DUE}", _bounds()
        )
        with self._lock:
            found = [tenant for (tenant,) in rows if tenant not in self._busy]
            self._busy.update(found)
        return found

    def _deliver_quietly(self, tenant: str) -> None:
        had_some = False
        try:
            # One turn: whoever has more is found due again, behind others that wait for a worker.
            had_some = self.deliver(tenant, TURN_SECONDS) > 0
        except Exception:
            logger.exception("deliveries: will be tried again")
        finally:
            with self._lock:
                self._busy.discard(tenant)
        if had_some:
            self._bell.set()

    def deliver(self, tenant: str, seconds: float = inf) -> int:
        """Make the calls of a tenant that are due now, and begin none after so many seconds;
        answers how many were due."""
        until = time.monotonic() + seconds
        rows = self._service.database.rows(
            "SELECT id, action, origin, body, tries FROM calls "
            f"WHERE {IS_DUE} AND tenant = ? ORDER BY id LIMIT ?",
            (*_bounds(), tenant, AT_ONCE),
        )
        for number, path, origin, body, tries in rows:
            if self._end.is_set() or time.monotonic() > until:
                break
            try:
                said = self._make(path, origin, body)
            except Exception as error:
                self._note_failure(number, tries + 1, f"{type(error).__name__}: {error}"[:300])
            else:
                self._note(number, "done", tries + 1, 0, said)
        return len(rows)

    def _make(self, path: str, origin: str, body: str) -> str:
        action = self._action(path)
        if action is None:
            return "there is no such action any more"
        refused = self._refused(path, origin)
        if refused is not None:
            return f"not done: {refused}"
        if action.webhook is not None:
            return self._post(action.webhook, f"{path}:{origin}", body)
        if action.mqtt is not None:
            if self._send is None:
                raise ConnectionError("this server has no broker; start it with --mqtt")
            self._send(f"{path.partition('/')[0]}/actions/{action.mqtt}", body.encode())
            return "sent"
        return self._divide(action, path, origin, body)

    def _refused(self, path: str, origin: str) -> str | None:
        """The reason why what set it off may not be told any more: an owner has denied it since."""
        stream, at, _ = origin.partition(">")[0].partition("@")
        if not at or stream.count("/") != 2:
            return None
        return self._service.provenance.refused(path.partition("/")[0], stream)

    def _divide(self, action: Action, path: str, origin: str, body: str) -> str:
        """A composite action sets off the others."""
        if origin.count(">") >= DEEPEST:
            return f"not done: composite actions are {DEEPEST} deep at most"
        tenant, name, _ = path.split("/")
        others = [full_path(tenant, name, each) for each in action.calls]
        mine = [each for each in others if each.partition("/")[0] == tenant]
        with self._service.database.transaction() as work:
            insert_calls(work, [(each, f"{origin}>{path}", body) for each in mine])
        return f"set off {len(mine)} others"

    def _post(self, url: str, key: str, body: str) -> str:
        """No redirect is followed: it could lead to a host that may not be called."""
        parts = urlsplit(url)
        if parts.hostname not in self._service.webhook_hosts:
            return f"not done: {parts.hostname} may not be called"
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=PATIENCE, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        # The patience of a socket is for each byte, and a server can send them one by one.
        limit = threading.Timer(PATIENCE, _hang_up, (connection,))
        limit.start()
        began = time.monotonic()
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            headers = {"content-type": "application/json", "idempotency-key": key}
            connection.request("POST", target, body.encode(), headers)
            status = connection.getresponse().status
        finally:
            limit.cancel()
            connection.close()
        if time.monotonic() - began >= PATIENCE:
            raise TimeoutError(f"it has not answered within {PATIENCE:g} seconds")
        if not 200 <= status < 300:
            raise ConnectionError(f"it answered {status}")
        return f"answered {status}"

    def _action(self, path: str) -> Action | None:
        tenant, name, action = path.split("/")
        rows = self._service.database.rows(
            "SELECT body FROM objects WHERE tenant = ? AND name = ? AND until = ?",
            (tenant, name, FOREVER),
        )
        if not rows:
            return None
        return msgspec.json.decode(rows[0][0], type=ServiceObject).actions.get(action)

    def _note_failure(self, number: int, tries: int, said: str) -> None:
        if tries >= TRIES:
            self._note(number, "failed", tries, 0, said)
        else:
            self._note(number, "due", tries, int((time.time() + 2.0 ** (tries - 2)) * 1e6), said)

    def _note(self, number: int, state: str, tries: int, due: int, said: str) -> None:
        with self._service.database.transaction() as work:
            _update(work, (state, tries, due, said, number))


def _hang_up(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _bounds() -> tuple[int, int]:
    now = int(time.time() * 1e6)
    return now, now + LONGEST_WAIT


def _update(work: Work, values: tuple[Any, ...]) -> None:
    work.run("UPDATE calls SET state = ?, tries = ?, due = ?, said = ? WHERE id = ?", values)
