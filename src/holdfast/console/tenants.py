"""Tenants' streams on the page: what a server of theirs says of them, asked by its REST interface.

Only ever reads. The tokens stay here: the page never sees them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.console.panels import Cell, Mark, Moment, Panel, Table
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology import is_loopback
from holdfast.tenants.process.client import Client, RefusedByServerError

EVERY: Final = 2.0
ANSWER: Final = 2.0
"""Seconds for the server to answer one question."""
BUDGET: Final = 4.0
"""Seconds for all questions of a round; who was not asked then is asked in the next."""
MOST_STREAMS: Final = 100
MOST_SIGNS: Final = 60
COLUMNS: Final = ("Stream", "Kind", "Last values", "Last update", "Read by", "Lagging", "Problem")


@dataclass(frozen=True, slots=True)
class Tenancy:
    """A server of tenants' streams. `tokens`: files, each with the token of a tenant whose streams
    are to be shown."""

    url: str
    tokens: Sequence[Path]

    @classmethod
    def of(cls, url: str | None, tokens: Sequence[Path]) -> Tenancy | None:
        """As it is given on the command line; None if it is not."""
        if url is not None:
            return cls(url, tokens)
        if tokens:
            raise InvalidArgumentError(
                "--tenant-token-file: does not go without --tenants; give it too"
            )
        return None


def tenant_panels(tenancy: Tenancy | None, authority: Path | None = None) -> list[Panel]:
    """One, if there is a server; raises if it cannot be asked as it is given. `authority`: the
    file with the certificate of whoever signed the server's."""
    if tenancy is None:
        return []
    _check(tenancy.url)
    if not tenancy.tokens:
        raise InvalidArgumentError(
            "--tenants: needs the token of a tenant; give --tenant-token-file FILE"
        )
    asked = [
        _Asked(
            Client(
                tenancy.url,
                token,
                authority=None if authority is None else str(authority),
                timeout=ANSWER,
            )
        )
        for token in map(_token, tenancy.tokens)
    ]
    return [Panel("tenants", "Tenants' streams", lambda: _table(asked), every=EVERY)]


def _check(url: str) -> None:
    try:
        said = urlsplit(url)
        host, port = said.hostname, said.port
    except ValueError:
        host, port = None, None
    if host is None or said.scheme not in ("http", "https") or said.path not in ("", "/"):
        raise InvalidArgumentError(
            f"--tenants: {url[:80]!r} is no address of a server; write http://127.0.0.1:8080"
        )
    if said.scheme == "http" and not is_loopback(host):
        raise InvalidArgumentError(
            f"--tenants: tokens would be sent to {host}:{port or 80} for all to read; write https://"
        )


def _token(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no text"
        raise InvalidArgumentError(
            f"{path}: {why}; give the file with the line that `holdfast tenant add` printed"
        ) from error
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidArgumentError(
            f"{path}: is no token; give the file with the line that `holdfast tenant add` printed"
        )
    return token


class _Asked:
    """The streams of one tenant, and what is known of each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rows: dict[str, list[Cell]] = {}
        self._turn: list[str] = []
        self.is_cut = False

    def rows(self, deadline: float) -> Iterable[list[Cell]]:
        found = self._client.streams()
        self.is_cut = len(found) > MOST_STREAMS
        paths = [str(each["stream"]) for each in found[:MOST_STREAMS]]
        # Those come first that were asked longest ago.
        self._turn = [each for each in self._turn if each in paths]
        self._turn += [each for each in paths if each not in self._turn]
        for path in list(self._turn):
            if time.monotonic() > deadline:
                break
            # It may have been removed meanwhile.
            with suppress(RefusedByServerError):
                self._rows[path] = self._row(path)
            self._turn.remove(path)
            self._turn.append(path)
        return [self._rows.get(path, [path, "", "not asked yet"]) for path in paths]

    def _row(self, path: str) -> list[Cell]:
        status = self._client.status(path)
        last: dict[str, Any] | None = None
        with suppress(RefusedByServerError):
            last = self._client.last(path)
        values = {} if last is None else last.get("values") or {}
        said = ", ".join(f"{name} {_value(each)}" for name, each in values.items())
        lagging = status.get("lagging") or {}
        return [
            path,
            str(status.get("kind", "")),
            _short(said) if last is not None else "no update yet",
            None if last is None else Moment(float(last["timestamp"]) / 1000),
            int(status.get("subscribers") or 0),
            _short(", ".join(sorted(map(str, lagging)))),
            self._problem(path, last) if status.get("kind") == "composite" else "",
        ]

    def _problem(self, path: str, last: dict[str, Any] | None) -> Cell:
        """Why there is nothing newer than the last update, if something went wrong since."""
        errors = self._client.errors(path)
        if not errors or (last is not None and errors[0]["timestamp"] <= last["timestamp"]):
            return ""
        return Mark(_short(str(errors[0]["message"])), "gone")


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= MOST_SIGNS else f"{text[: MOST_SIGNS - 1]}…"


def _table(asked: Sequence[_Asked]) -> Table:
    deadline = time.monotonic() + BUDGET
    rows: list[list[Cell]] = []
    try:
        for each in asked:
            rows += each.rows(deadline)
    except RefusedByServerError as error:
        return Table((), (), f"the server of the tenants refuses: {error}")
    except (OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return Table(
            (), (), "the server of the tenants does not answer; see whether `holdfast serve` runs"
        )
    note = "" if rows else "no tenant has a stream yet"
    if any(each.is_cut for each in asked):
        note = f"the first {MOST_STREAMS} streams of a tenant are shown"
    return Table(COLUMNS, rows, note)
