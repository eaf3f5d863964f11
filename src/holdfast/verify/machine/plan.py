"""Stages of a job, and the slices of their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from holdfast.errors import InvalidArgumentError

MAX_SLICES = 1 << 16


class Plan:
    """Stages in an order in which each comes after its parents. Immutable."""

    def __init__(
        self, stages: Mapping[str, Sequence[str]], slices: int = 8, pins: bytes = b""
    ) -> None:
        """`stages`: the parents of each. `slices`: how many every output is cut into. `pins`: the
        digest of all else that the results depend on, such as code and sources."""
        if not stages:
            raise InvalidArgumentError("stages: there are none; give at least one")
        if not 1 <= slices <= MAX_SLICES:
            raise InvalidArgumentError(f"slices: {slices} is not within 1 and {MAX_SLICES}")
        self.slices = slices
        self.pins = pins
        self.stages: dict[str, tuple[str, ...]] = {}
        for name in _in_order(stages):
            self.stages[name] = tuple(stages[name])
        self._children = {
            name: tuple(child for child, parents in self.stages.items() if name in parents)
            for name in self.stages
        }

    def parents(self, stage: str) -> tuple[str, ...]:
        return self.stages[stage]

    def children(self, stage: str) -> tuple[str, ...]:
        return self._children[stage]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The stages that no other reads."""
        return tuple(name for name in self.stages if not self._children[name])


def basis_of(inputs: Mapping[str, Sequence[bytes]], pins: bytes = b"") -> bytes:
    """What something was computed from, as one digest: the plan's pins, and each slice of each
    parent.

    It says nothing of runs or paths: whoever computes from equal inputs has the same basis.
    """
    whole = sha256(pins)
    for parent in sorted(inputs):
        name = parent.encode()
        whole.update(len(name).to_bytes(4, "big") + name)
        whole.update(len(inputs[parent]).to_bytes(4, "big"))
        for digest in inputs[parent]:
            whole.update(len(digest).to_bytes(4, "big") + digest)
    return whole.digest()


def _in_order(stages: Mapping[str, Sequence[str]]) -> list[str]:
    ordered: dict[str, None] = {}
    for name, parents in stages.items():
        if not name:
            raise InvalidArgumentError("stages: one has no name; give it one")
        for parent in parents:
            if parent not in stages:
                raise InvalidArgumentError(
                    f"stages: {name} reads {parent!r}, which is no stage; "
                    f"name one of {', '.join(stages)}"
                )
        if len(set(parents)) < len(parents):
            raise InvalidArgumentError(f"stages: {name} names a parent twice; name each once")
    while len(ordered) < len(stages):
        ready = [
            name
            for name, parents in stages.items()
            if name not in ordered and all(parent in ordered for parent in parents)
        ]
        if not ready:
            rest = ", ".join(name for name in stages if name not in ordered)
            raise InvalidArgumentError(f"stages: {rest} wait for each other; break the circle")
        ordered.update(dict.fromkeys(ready))
    return list(ordered)
