"""Fails the build when a page would load anything from another host: docs are read offline too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

__all__ = ["find_requests", "setup"]

LOADING: Final = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
OUTSIDE: Final = re.compile(r"^\s*(https?:)?//")
STYLE: Final = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Loads(HTMLParser):
    """What a page loads by itself; links that a reader follows are not that."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "author", "license"):
            return
        address = given.get(LOADING.get(tag, "")) or ""
        if OUTSIDE.match(address):
            self.addresses.append(address)
        self.addresses += STYLE.findall(given.get("style") or "")


def find_requests(folder: Path) -> Iterator[str]:
    """Each request to another host that a file of the site makes."""
    for path in sorted(folder.rglob("*.html")):
        page = _Loads()
        page.feed(path.read_text())
        yield from (f"{path.relative_to(folder)}: {address}" for address in page.addresses)
    for path in sorted(folder.rglob("*.css")):
        found = STYLE.findall(path.read_text())
        yield from (f"{path.relative_to(folder)}: {address}" for address in found)


def setup(app: Sphinx) -> dict[str, object]:
    def look(built: Sphinx, error: Exception | None) -> None:
        found = [] if error else list(find_requests(Path(built.outdir)))
        if found:
            raise ExtensionError("pages load from other hosts:\n  " + "\n  ".join(found))

    app.connect("build-finished", look)
    return {"parallel_read_safe": True}
