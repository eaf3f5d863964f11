"""Event loop of the server: TLS handshakes take no longer than the head of a request may.

uvicorn has no setting for that, and asyncio waits for a minute.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

__all__ = ["HANDSHAKE_SECONDS", "new_loop"]

HANDSHAKE_SECONDS: Final = 10.0


class _Loop(asyncio.SelectorEventLoop):
    async def create_server(self, *given: Any, **named: Any) -> Any:
        if named.get("ssl") is not None:
            named.setdefault("ssl_handshake_timeout", HANDSHAKE_SECONDS)
        return await super().create_server(*given, **named)


def new_loop() -> asyncio.AbstractEventLoop:
    return _Loop()
