"""Messages of replicas that share work as bytes: what a link would carry."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec

from holdfast.pipeline.machine.sharing import messages

__all__ = ["Copies", "encode"]


class Copies:
    """In the place of a record: the tuples themselves."""

    def __init__(self, ids: tuple[Any, ...], value: bytes) -> None:
        self.tuples = [(each, value) for each in ids]


TAGS: Final = {getattr(messages, name): at for at, name in enumerate(messages.__all__)}


def _plain(thing: Any) -> Any:
    """Fields by place, not by name, after a number for the kind."""
    if isinstance(thing, Copies):
        return [len(TAGS), _plain(thing.tuples)]
    if is_dataclass(thing):
        values = (_plain(getattr(thing, each.name)) for each in fields(thing))
        return [TAGS[type(thing)], *values]
    if isinstance(thing, tuple | list):
        return [_plain(each) for each in thing]
    return thing


def encode(message: Any) -> bytes:
    return msgspec.msgpack.encode(_plain(message))
