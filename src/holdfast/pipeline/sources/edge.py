"""The root of an edge as a source: its windows are the rows.

This is where the `merge` gate of a topology stands: what children send are states, no rows, so they
are merged here and what goes on to Spark are finished windows. A pane is acknowledged to the
children only when the windows it completes are in the stream's log; what a restart finds in neither
is sent again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast.edge.process.config import Layout
from holdfast.edge.process.root_process import RootNode
from holdfast.edge.process.runner import to_json
from holdfast.pipeline.sources.inlets import Inlet

TURN = 0.1
"""Seconds between two looks at whether to stop."""


class EdgeBringer:
    """The place is the start of the last window of each query. `memory`: the root's own."""

    def __init__(self, file: Path, schema: pa.Schema, memory: Path) -> None:
        self._layout = Layout.read(file)
        self._schema = schema
        self._memory = memory

    def bring(self, inlet: Inlet) -> None:
        root = RootNode(self._layout, _InletKeeper(inlet, self._schema), self._memory)
        try:
            while not inlet.stopping.is_set():
                root.step(TURN)
        finally:
            root.close()


class _InletKeeper:
    def __init__(self, inlet: Inlet, schema: pa.Schema) -> None:
        self._inlet = inlet
        self._schema = schema
        self._last: dict[str, int] = dict((inlet.place or {}).get("last", {}))

    @property
    def position(self) -> int:
        return 0

    def last(self, position: int) -> Mapping[str, int]:
        return self._last

    def keep(self, windows: list[dict[str, Any]]) -> None:
        rows = [row for window in windows for row in _rows(window)]
        for window in windows:
            self._last[window["query"]] = window["start"]
        self._inlet.take(
            pa.Table.from_pylist(rows, schema=self._schema), {"last": dict(self._last)}
        )


def _rows(window: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One, or one for each key; one of a window by keys in which there is none, for it may lack
    events."""
    answer = window["answer"]
    answers = (answer or {None: None}) if isinstance(answer, dict) else {None: answer}
    for key, each in answers.items():
        yield {
            "query": window["query"],
            "start": window["start"],
            "end": window["end"],
            "key": None if key is None else str(key),
            "value": float(each) if isinstance(each, int | float) else None,
            "answer": None if each is None else to_json(each),
            "complete": window["complete"],
            "missing": window["missing"],
            "lost": window["lost"],
            "replayed": window["replayed"],
            "late": window["late"],
            "refused": window["refused"],
            "failed": ",".join(window["failed"]),
        }
