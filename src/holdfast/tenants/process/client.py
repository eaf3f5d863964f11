"""Small client for programs that publish or follow streams; needs only Python.

client = Client("http://127.0.0.1:8080", token)
client.publish("ann/roof/air", {"celsius": -3.5})
for update in client.follow("ben/chill/felt"):
    print(update["values"])
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from holdfast.errors import HoldfastError


class RefusedByServerError(HoldfastError):
    """What the server said, with the status it gave."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the server may say something else, if it says so."""


class UpdatesDroppedError(HoldfastError):
    """A follower was away for longer than updates are kept."""

    def __init__(self, after: int, before: int) -> None:
        super().__init__(
            f"follow: updates {after + 1} to {before - 1} are not kept any more; "
            f"go on with after={before - 1}"
        )
        self.before = before


class Client:
    def __init__(
        self,
        address: str,
        token: str,
        *,
        authority: str | None = None,
        timeout: float = 30.0,
        patience: float = 0.0,
    ) -> None:
        """`authority`: the file with the certificate of whoever signed the server's. `patience`:
        seconds for which a request that is refused for now (429, 503) is made again, as often as
        the server says that it may be."""
        self._address = address.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._tls = ssl.create_default_context(cafile=authority) if authority else None

    def put(self, name: str, document: Mapping[str, Any]) -> int:
        """Create or change a service object; answers its version."""
        return int(self._ask("PUT", f"/v1/objects/{quote(name)}", document)["version"])

    def delete(self, name: str) -> None:
        self._ask("DELETE", f"/v1/objects/{quote(name)}")

    def publish(
        self, stream: str, values: Mapping[str, Any] | list[dict[str, Any]], **more: Any
    ) -> list[dict[str, Any]]:
        """The values of one update, with timestamp, key or offset; or a list of whole updates."""
        body = values if isinstance(values, list) else {"channels": values, **more}
        answer: list[dict[str, Any]] = self._ask("POST", f"{_path(stream)}/updates", body)
        return answer

    def streams(self, **tags: str) -> list[dict[str, Any]]:
        """One's own; with tags, all that have them and may be read."""
        asked = ",".join(f"{tag}:{value}" for tag, value in tags.items())
        answer: list[dict[str, Any]] = self._ask(
            "GET", f"/v1/streams?{urlencode({'tags': asked, 'limit': 1000})}"
        )
        return answer

    def status(self, stream: str) -> dict[str, Any]:
        """What a stream is and how it does."""
        answer: dict[str, Any] = self._ask("GET", _path(stream))
        return answer

    def last(self, stream: str) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask("GET", f"{_path(stream)}/last")
        return answer

    def updates(self, stream: str, **wanted: Any) -> list[dict[str, Any]]:
        """By `since`, `until`, `after`, `key`, `text`, `latitude`, `longitude`, `km`, `limit`."""
        asked = f"?{urlencode(wanted)}" if wanted else ""
        answer: list[dict[str, Any]] = self._ask("GET", f"{_path(stream)}/updates{asked}")
        return answer

    def errors(self, stream: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self._ask("GET", f"{_path(stream)}/errors")
        return answer

    def follow(self, stream: str, after: int = -1) -> Iterator[dict[str, Any]]:
        """Updates as they come, from beyond this offset; ends when the stream does. Raises
        `UpdatesDroppedError` if some that would follow are not kept any more, and
        `RefusedByServerError` once an owner of what is in them denies it, or the token is replaced.
        """
        with self._open("GET", f"{_path(stream)}/events?after={after}") as answer:
            kind = b""
            for line in answer:
                if line.startswith(b"event: "):
                    kind = line[7:].strip()
                elif line.startswith(b"data: "):
                    told = json.loads(line[6:])
                    if kind == b"end" and told.get("status", 404) == 404:
                        return
                    if kind == b"end":
                        raise RefusedByServerError(told["status"], told["error"])
                    if kind == b"gap":
                        raise UpdatesDroppedError(after, told["before"])
                    kind = b""
                    yield told

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        with self._open(method, path, body) as answer:
            data = answer.read()
        return json.loads(data) if data else None

    def _open(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self._open_once(method, path, body)
            except RefusedByServerError as error:
                wait = error.retry_after
                if wait is None or time.monotonic() + wait > deadline:
                    raise
                time.sleep(wait)

    def _open_once(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        request = Request(self._address + path, data, headers, method=method)
        try:
            return urlopen(request, timeout=self._timeout, context=self._tls)
        except HTTPError as error:
            with error:
                said = error.read()
            try:
                message = json.loads(said)["error"]
            except (ValueError, KeyError, TypeError):
                message = said.decode("utf-8", "replace")[:300]
            wait = error.headers.get("retry-after", "")
            raise RefusedByServerError(
                error.code, message, float(wait) if wait.isdigit() else None
            ) from None


def _path(stream: str) -> str:
    return f"/v1/streams/{quote(stream)}"
