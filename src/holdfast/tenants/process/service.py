"""Service of tenants, called by HTTP and MQTT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from holdfast.errors import (
    ForbiddenError,
    HoldfastError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from holdfast.storage.atomic_file import make_folder
from holdfast.tenants.machine.definitions import channel_types, owner_of
from holdfast.tenants.machine.documents import DocumentError, ServiceObject, read_as
from holdfast.tenants.machine.settling import LONGEST_KEY
from holdfast.tenants.machine.updates import check_values, weight
from holdfast.tenants.process.backlog import Backlog, Rates
from holdfast.tenants.process.catalog import Catalog
from holdfast.tenants.process.engine.storing import Stages, StoredBatch, insert_calls, progress
from holdfast.tenants.process.log import Log, OutdatedError, Publication, Receipt
from holdfast.tenants.process.provenance import Provenance
from holdfast.tenants.process.reading import Reading
from holdfast.tenants.process.registry import Audit, Registry, Tenant
from holdfast.tenants.process.store.database import Database, open_database
from holdfast.tenants.process.store.schema import create_tables

MOST_AT_ONCE: Final = 1000
"""Updates in one publication."""
LARGE_UPDATE: Final = 4_096
"""Bytes of an update that count as one more."""
LARGE_DOCUMENT: Final = 16_384
"""Bytes of a document that count as one more change: all its versions are kept."""
STREAMS_PER_CHANGE: Final = 10.0
"""Streams of a document that count as one more change."""
FREE_SECONDS: Final = 0.02
CHANGE_SECONDS: Final = 0.005
"""Processor time of a change, beyond what is free, that counts as one more: others wait for it."""
STALLED_SECONDS: Final = 120.0
"""So long a batch may take before the engine counts as stalled."""
TRIES: Final = 20
"""So often an update is checked anew when documents change meanwhile."""
AHEAD: Final = 3_600_000_000
"""Microseconds that a source's clock may be ahead: what is far in the future starves all others."""


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An update as a source sends it."""

    channels: dict[str, Any]
    timestamp: Annotated[int, Meta(ge=0, le=2**53)] | datetime | None = None
    """In microseconds since 1970, or RFC 3339; without one, when it arrives."""
    key: Annotated[str, Meta(max_length=LONGEST_KEY)] = ""
    offset: Annotated[int, Meta(ge=0, le=2**53)] | None = None


def read_updates(data: bytes) -> list[Published]:
    """One, or a list of them."""
    given = read_as(data, _Publication)
    return [given] if isinstance(given, Published) else given


_Publication: Any = Published | list[Published]


class Service:
    def __init__(
        self,
        database: Database,
        *,
        webhook_hosts: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.time,
    ) -> None:
        create_tables(database)
        self.database = database
        self.registry = Registry(database)
        self.audit = Audit(database)
        self.log = Log(database)
        self.provenance = Provenance(database)
        self.catalog = Catalog(database, self.log, self.provenance)
        self.reading = Reading(database, self.provenance)
        self.rates = Rates()
        self.backlog = Backlog(database)
        self.stages = Stages()
        self.tells: dict[str, Callable[[], Any]] = {"backlog": self.backlog.told}
        """What else there is to say about how the server does."""
        self.webhook_hosts = webhook_hosts
        self.engine_trouble: Callable[[], str] = lambda: ""
        """The reason why nothing is calculated now, if so."""
        self._clock = clock
        self._moved = time.monotonic()
        """The time of the last batch, or when the first entry came that waits for one."""
        self._settled = threading.Condition()
        self._position = progress(database)
        self._listeners: list[Callable[[int], None]] = []

    @classmethod
    def open(cls, folder: Path, place: str | None = None, **more: Any) -> Self:
        """In a folder, or at the address of a PostgreSQL database."""
        make_folder(folder)
        return cls(open_database(place or str(folder / "store.db")), **more)

    def trouble(self) -> str:
        """The reason why updates are not calculated; empty if they are."""
        found = self.engine_trouble()
        waited = self.waited()
        if not found and waited > STALLED_SECONDS:
            found = f"no batch was stored for {waited:.0f} seconds, and updates wait"
        return found

    def waited(self) -> float:
        """The seconds for which entries have waited and no batch was stored; 0 if none waits."""
        return time.monotonic() - self._moved if self.log.end > self.position else 0.0

    def check_writable(self) -> None:
        """Raise if what is written now would wait for an engine that does not run."""
        trouble = self.trouble()
        if trouble:
            raise UnavailableError(
                f"server: nothing is calculated now, so nothing is taken; try again: {trouble}"
            )

    def put(self, tenant: Tenant, name: str, document: ServiceObject) -> int:
        def put() -> int:
            self._charge_change(tenant, document)
            self._check_webhooks(document)
            with self.backlog.room(tenant.name, tenant.quotas, 1, 0) as taken:
                version = self.catalog.put(tenant.name, name, document, tenant.quotas)
                taken.position = self.log.end
            return version

        return self._audited(tenant, "put", name, put)

    def delete(self, tenant: Tenant, name: str) -> None:
        def delete() -> None:
            self._charge_change(tenant, self.catalog.get(tenant.name, name).document)
            with self.backlog.room(tenant.name, tenant.quotas, 1, 0) as taken:
                self.catalog.delete(tenant.name, name)
                taken.position = self.log.end

        self._audited(tenant, "delete", name, delete)

    def publish(self, tenant: Tenant, path: str, updates: list[Published]) -> list[Receipt]:
        """All of them or none; they are in the log when this returns."""
        if not updates or len(updates) > MOST_AT_ONCE:
            raise InvalidArgumentError(f"updates: give 1 to {MOST_AT_ONCE} at once")
        if owner_of(path) != tenant.name:
            raise NotFoundError(f"stream: there is no {path} of yours")
        more = sum(len(msgspec.json.encode(each.channels)) // LARGE_UPDATE for each in updates)
        self.rates.publish(tenant.name, tenant.quotas, len(updates) + more, path)
        for _ in range(TRIES):
            try:
                return self._publish(tenant, path, updates)
            except OutdatedError:
                # A document was changed in between, perhaps this stream's.
                continue
        return self._publish(tenant, path, updates)

    def _publish(self, tenant: Tenant, path: str, updates: list[Published]) -> list[Receipt]:
        self._note_idle()
        checked = self.log.changed
        stream = self.reading.admitted(tenant.name, path)
        if stream.is_composite:
            raise ForbiddenError(f"stream: {path} is calculated from others; publish to those")
        types, now = channel_types(stream), int(self._clock() * 1e6)
        made = [self._publication(path, types, now, each) for each in updates]
        size = sum(sum(map(weight, each.values.values())) for each in made)
        with self.backlog.room(tenant.name, tenant.quotas, len(made), size) as taken:
            receipts = self.log.append(made, checked)
            taken.position = max(0 if each.duplicate else each.position for each in receipts)
        return receipts

    def call(self, tenant: Tenant, name: str, action: str, body: Any) -> str:
        """An action by hand; answers what to look for among the calls."""

        def call() -> str:
            stored = self.catalog.get(tenant.name, name)
            if action not in stored.document.actions:
                raise NotFoundError(f"action: there is no {name}/{action} of yours")
            origin = f"call@{time.time_ns()}"
            path = f"{tenant.name}/{name}/{action}"
            with self.database.transaction() as work:
                insert_calls(work, [(path, origin, msgspec.json.encode(body).decode())])
            return origin

        return self._audited(tenant, "call", f"{name}/{action}", call)

    def calls(self, tenant: Tenant, limit: int) -> list[dict[str, Any]]:
        rows = self.database.rows(
            "SELECT action, origin, state, tries, said FROM calls WHERE tenant = ? "
            "ORDER BY id DESC LIMIT ?",
            (tenant.name, limit),
        )
        names = ("action", "origin", "state", "tries", "said")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def stored(self, batch: StoredBatch) -> None:
        """The engine has done one more."""
        self.stages.add(batch.seconds, batch.counts)
        self.rates.learn(batch.work)
        self._moved = time.monotonic()
        self.settled(batch.end, batch.cursors)

    def settled(self, position: int, cursors: Mapping[str, int] = MappingProxyType({})) -> None:
        """The engine has come so far, and further for some tenants."""
        self.backlog.settled(position, cursors)
        with self._settled:
            self._position = max(self._position, position)
            self._settled.notify_all()
        for listener in list(self._listeners):
            listener(position)

    def wait_settled(self, position: int, seconds: float) -> bool:
        with self._settled:
            return self._settled.wait_for(lambda: self._position >= position, seconds)

    def listen(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Called with how far the engine is; answers how to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def position(self) -> int:
        return self._position

    def _publication(
        self, path: str, types: dict[str, str], now: int, update: Published
    ) -> Publication:
        match update.timestamp:
            case None:
                timestamp = now
            case datetime() as said:
                aware = said if said.tzinfo is not None else said.replace(tzinfo=UTC)
                timestamp = int(aware.timestamp() * 1e6)
            case said:
                timestamp = said
        if timestamp > now + AHEAD:
            raise InvalidArgumentError(
                "timestamp: is more than an hour ahead of this machine; set the source's clock"
            )
        if not update.key.isprintable():
            raise InvalidArgumentError("key: has signs that cannot be shown; use others")
        values = check_values(update.channels, types)
        return Publication(path, timestamp, values, update.key, update.offset)

    def _check_webhooks(self, document: ServiceObject) -> None:
        for name, action in document.actions.items():
            if action.webhook is None:
                continue
            try:
                host = urlsplit(action.webhook).hostname
            except ValueError:
                host = None
            if host not in self.webhook_hosts:
                raise DocumentError(
                    f"actions.{name}.webhook: {host} is not a host that may be called; whoever "
                    "runs this server can add it with --webhook-host"
                )

    def _note_idle(self) -> None:
        """What comes now waits from now on, not since the last batch."""
        if self.position >= self.log.end:
            self._moved = time.monotonic()

    def _charge_change(self, tenant: Tenant, document: ServiceObject) -> None:
        size = len(msgspec.json.encode(document))
        more = len(document.streams) / STREAMS_PER_CHANGE + size // LARGE_DOCUMENT
        self.rates.charge(tenant.name, tenant.quotas, "changes", more)

    def _audited(self, tenant: Tenant, action: str, target: str, run: Callable[[], Any]) -> Any:
        self._note_idle()
        self.rates.take(tenant.name, tenant.quotas, "changes")
        began = time.thread_time()
        try:
            result = run()
        except HoldfastError as error:
            self.audit.note(tenant.name, action, target, f"refused: {error}")
            raise
        finally:
            spent = (time.thread_time() - began - FREE_SECONDS) / CHANGE_SECONDS
            if spent > 0:
                self.rates.charge(tenant.name, tenant.quotas, "changes", spent)
        self.audit.note(tenant.name, action, target, "done")
        return result
