"""Questions of people and programs to a node that runs: how it is, which queries there are."""

from __future__ import annotations

import json
import os
import time
from itertools import count
from typing import Any, Final

from holdfast.edge.errors import SilentError
from holdfast.edge.frames import Answer, Ask, Carried
from holdfast.edge.hub import Hub
from holdfast.edge.layout import Layout
from holdfast.edge.security import read_credentials
from holdfast.errors import InvalidArgumentError

__all__ = ["Client"]

PATIENCE: Final = 5.0
AGAIN: Final = 1.0


class Client:
    """Keeps its connections; a context manager. Not for several threads."""

    def __init__(self, layout: Layout) -> None:
        self._numbers = count(1)
        self._answers: dict[int, Answer] = {}
        credentials = read_credentials(layout.security, layout.home)
        name = f"asker-{os.getpid()}-{time.monotonic_ns()}"
        self._hub = Hub(name, credentials, self._received, addresses=layout.addresses())

    def _received(self, sender: str, message: Carried) -> None:
        if isinstance(message, Answer):
            self._answers[message.number] = message

    def ask(self, node: str, what: str, body: Any = None, *, patience: float = PATIENCE) -> Any:
        """What the node answers. Raises SilentError if it does not."""
        deadline = time.monotonic() + patience
        number = next(self._numbers)
        ask = Ask(number, what, b"" if body is None else json.dumps(body).encode())
        again = 0.0
        while number not in self._answers:
            now = time.monotonic()
            if now > deadline:
                raise SilentError(f"{node}: does not answer; see whether it runs")
            # All questions may be asked twice.
            if now >= again and self._hub.send(node, ask):
                again = now + AGAIN
            self._hub.poll(0.02)
        answer = self._answers.pop(number)
        if answer.error:
            raise InvalidArgumentError(answer.error)
        return json.loads(answer.body)

    def close(self) -> None:
        self._hub.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
