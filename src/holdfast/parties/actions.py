"""What a party answers when it is asked to do something: how it is, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidArgumentError

__all__ = ["answer_action"]


def answer_action(name: str, status: Callable[[], Mapping[str, Any]]) -> bytes:
    """`status`: what the party says of itself."""
    if name != "status":
        raise InvalidArgumentError(f"action: there is no {name!r}; ask for 'status'")
    return json.dumps(status()).encode()
