"""Registry of tenants: names, tokens, quotas, audit."""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from typing import Any

import msgspec

from holdfast.errors import ConflictError, ForbiddenError, InvalidArgumentError, NotFoundError
from holdfast.tenants.machine.documents import NAME
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.store.database import Database


class Tenant(msgspec.Struct, frozen=True):
    name: str
    quotas: Quotas


class Registry:
    """Tokens are kept as digests: who reads the store cannot speak for anybody."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, name: str, quotas: Quotas | None = None) -> str:
        """The token of a new tenant; it is shown this once."""
        if re.fullmatch(NAME, name) is None:
            raise InvalidArgumentError(
                f"tenant: {name[:80]!r} is no name; use small letters, digits, _ and -"
            )
        token = secrets.token_urlsafe(32)
        body = msgspec.json.encode(quotas or Quotas()).decode()
        with self._database.transaction() as work:
            added = work.run(
                "INSERT INTO tenants (name, token, quotas) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (name, _digest(token), body),
            )
        if added != 1:
            raise ConflictError(f"tenant: there is a {name!r} already; take another name")
        return token

    def rotate(self, name: str, grace: int = 0) -> str:
        """Another token in place of the one there is, which is valid for so many microseconds."""
        token, now = secrets.token_urlsafe(32), int(time.time() * 1e6)
        with self._database.transaction() as work:
            rows = work.rows("SELECT token FROM tenants WHERE name = ?", (name,))
            if not rows:
                raise NotFoundError(
                    f"tenant: there is no {name[:80]!r}; see `holdfast tenant list`"
                )
            # Without grace, what an earlier rotation has left ends too: it may be known to others.
            work.run("DELETE FROM old_tokens WHERE until <= ? OR name = ?", (now, name))
            work.run(
                "INSERT INTO old_tokens (token, name, until) VALUES (?, ?, ?)",
                (rows[0][0], name, now + grace),
            )
            work.run("UPDATE tenants SET token = ? WHERE name = ?", (_digest(token), name))
        return token

    def names(self) -> list[str]:
        return [name for (name,) in self._database.rows("SELECT name FROM tenants ORDER BY name")]

    def named(self, name: str) -> Tenant | None:
        rows = self._database.rows("SELECT quotas FROM tenants WHERE name = ?", (name,))
        return Tenant(name, msgspec.json.decode(rows[0][0], type=Quotas)) if rows else None

    def who(self, authorization: str | None) -> Tenant:
        """Of the header of a request."""
        kind, _, token = (authorization or "").partition(" ")
        found = self.with_token(token.strip()) if kind == "Bearer" and token else None
        if found is None:
            raise ForbiddenError("token: is missing or not known; send Authorization: Bearer TOKEN")
        return found

    def with_token(self, token: str) -> Tenant | None:
        """Read anew each time: a token that was replaced is refused from then on."""
        digest = _digest(token)
        rows = self._database.rows("SELECT name, quotas FROM tenants WHERE token = ?", (digest,))
        if not rows:
            rows = self._database.rows(
                "SELECT tenants.name, quotas FROM tenants JOIN old_tokens "
                "ON tenants.name = old_tokens.name WHERE old_tokens.token = ? AND until > ?",
                (digest, int(time.time() * 1e6)),
            )
        return Tenant(rows[0][0], msgspec.json.decode(rows[0][1], type=Quotas)) if rows else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class Audit:
    """What tenants changed or were refused to change. What they published is in the log."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()

    def note(self, tenant: str, action: str, target: str, outcome: str) -> None:
        with self._lock, self._database.transaction() as work:
            following = int(work.rows("SELECT coalesce(max(id), 0) FROM audit")[0][0]) + 1
            work.run(
                "INSERT INTO audit (id, at, tenant, action, target, outcome) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (following, int(time.time() * 1e6), tenant, action, target[:300], outcome[:300]),
            )

    def of(self, tenant: str, limit: int) -> list[dict[str, Any]]:
        rows = self._database.rows(
            "SELECT at, action, target, outcome FROM audit WHERE tenant = ? "
            "ORDER BY id DESC LIMIT ?",
            (tenant, limit),
        )
        names = ("at", "action", "target", "outcome")
        return [dict(zip(names, row, strict=True)) for row in rows]
