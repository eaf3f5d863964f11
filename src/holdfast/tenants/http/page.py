"""A page that draws a stream as it comes: no library, nothing from elsewhere, a strict policy.

The token is typed in and stays in the page: it is sent as a header with `fetch`, which can read
server-sent events too, and never stands in an address.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

__all__ = ["CHART", "HEADERS", "SCRIPT"]

CHART: Final = files(__package__).joinpath("chart.html").read_text()
SCRIPT: Final = files(__package__).joinpath("chart.js").read_text()
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
