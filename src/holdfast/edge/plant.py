"""A small edge on this machine, for demonstrations, tests and benchmarks: its file, and what every
window of it must come to."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from holdfast.edge.layout import Layout
from holdfast.edge.simulated import Simulated

__all__ = ["Expected", "free_ports", "write_plant"]

_PORTS: Final = range(15_000, 32_000)
"""Below those that the kernel gives to connections."""


def free_ports(count: int) -> list[int]:
    """Different ones, free now."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        if port in found:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


def write_plant(
    folder: Path,
    *,
    sensors: int = 6,
    children: int = 8,
    layers: Iterable[int] = (),
    rate: float = 1_000,
    keys: int = 0,
    groups: int = 1,
    queries: Mapping[str, Mapping[str, Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """The file of an edge with free ports. `layers`: how many intermediates in each; `groups`: that
    children and sensors belong to in turn; `settings`: fields of the file's top level; `queries`:
    by name, count over two seconds unless given."""
    folder.mkdir(parents=True, exist_ok=True)
    above = list(layers)
    ports = iter(free_ports(1 + children + sum(above)))
    lines = [f"{name} = {_toml(value)}" for name, value in (settings or {}).items()]
    lines += ["[root]", f'address = "127.0.0.1:{next(ports)}"', 'output = "windows.jsonl"']
    for number in range(1, children + 1):
        lines += [f"[children.c{number}]", f'address = "127.0.0.1:{next(ports)}"']
        lines += _group(number, groups)
    for layer, count in enumerate(above, 1):
        for number in range(1, count + 1):
            address = f'address = "127.0.0.1:{next(ports)}"'
            lines += [f"[intermediates.i{layer}{number}]", address, f"layer = {layer}"]
    for number in range(1, sensors + 1):
        lines += [f"[sensors.s{number}]", f"rate = {rate}", f"seed = {number}", f"keys = {keys}"]
        lines += _group(number, groups)
    for name, query in (queries or {"count": {"aggregate": "count", "size": "2s"}}).items():
        lines.append(f"[queries.{name}]")
        lines += [f"{field} = {_toml(value)}" for field, value in query.items()]
    path = folder / "plant.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _group(number: int, groups: int) -> list[str]:
    return [f'group = "g{1 + number % groups}"'] if groups > 1 else []


def _toml(value: Any) -> str:
    return json.dumps(value)


class Expected:
    """What windows must come to, from the reports of simulated sensors alone."""

    def __init__(self, layout: Layout, reports: Iterable[Mapping[str, Any]]) -> None:
        self._layout = layout
        self._sensors = []
        for report in reports:
            name = report["sensor"]
            settings = layout.sensors[name]
            count = report["emitted"] if report["left"] else settings.events
            self._sensors.append(
                Simulated(name, report["start"], settings.rate, settings.seed, settings.keys, count)
            )

    def answer(self, window: Mapping[str, Any]) -> Any:
        """Of count, sum, mean, min, max and range, keyed or not."""
        start, end = window["start"], window["end"]
        query = next(each for each in self._layout.asked() if each.id == window["query"])
        values = np.concatenate([each.within(start, end) for each in self._sensors])
        if not query.keyed:
            return _answer(query.aggregate, values)
        keys = np.array([k for each in self._sensors for k in each.keys_within(start, end)], object)
        return {key: _answer(query.aggregate, values[keys == key]) for key in sorted(set(keys))}

    def events(self, start: int, end: int) -> int:
        """How many there are in `[start, end)`."""
        return sum(each.before(end) - each.before(start) for each in self._sensors)

    def differences(self, windows: Iterable[Mapping[str, Any]]) -> list[str]:
        """What is wrong with windows: answers, and windows that are missing or come twice."""
        found = []
        last: dict[str, int] = {}
        slides = {query.id: query.slide for query in self._layout.asked()}
        for window in windows:
            query = window["query"]
            if query not in slides:
                continue
            if query in last and window["start"] != last[query] + slides[query]:
                found.append(f"{query}: {window['start']} comes after {last[query]}")
            last[query] = window["start"]
            right = self.answer(window)
            if window["answer"] != right:
                found.append(f"{query} {window['start']}: {window['answer']}, right is {right}")
        return found


def _answer(aggregate: str, values: Any) -> Any:
    if not len(values):
        return None
    match aggregate:
        case "count":
            return len(values)
        case "sum":
            return float(values.sum())
        case "mean":
            return float(values.sum()) / len(values)
        case "min":
            return float(values.min())
        case "max":
            return float(values.max())
        case "range":
            return float(values.max() - values.min())
    raise ValueError(f"{aggregate} is not recalculated here")
