"""What a party answers when it is asked to do something: how it is, and little else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from holdfast.errors import InvalidArgumentError

__all__ = ["answer_action"]


def answer_action(name: str, answers: Mapping[str, Callable[[], object]]) -> bytes:
    """`answers`: what it can be asked for."""
    if name not in answers:
        known = " or ".join(repr(each) for each in answers)
        raise InvalidArgumentError(f"action: there is no {name!r}; ask for {known}")
    return json.dumps(answers[name]()).encode()
