"""Topologies for tests: as the values of a file, and made of them in both ways."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.settings import settings_of
from holdfast.pipeline.topology import (
    Problem,
    Replica,
    Security,
    Sink,
    Stage,
    Stream,
    Topology,
    TopologyError,
)
from holdfast.pipeline.topology.sinks import SINKS
from holdfast.pipeline.topology.stages import STEPS
from holdfast.pipeline.topology.streams import SOURCES
from holdfast.pipeline.topology.writing import write_value

__all__ = ["changed", "fleet", "in_file", "in_python", "problems_in_file", "problems_in_python"]

SCHEMA = {"sensor": "string", "value": "double"}


def fleet() -> dict[str, Any]:
    """Two streams, three stages, two sinks, all of them right."""
    return {
        "name": "fleet",
        "bucket": "500ms",
        "streams": {
            "readings": {"source": "push", "address": "127.0.0.1:7001", "schema": dict(SCHEMA)},
            "others": {
                "source": "files",
                "path": "others",
                "format": "csv",
                "address": "127.0.0.1:7002",
                "schema": dict(SCHEMA),
            },
        },
        "stages": {
            "clean": {
                "inputs": ["readings", "others"],
                "replicas": ["127.0.0.1:7101", "127.0.0.1:7102"],
                "max_delay": "4s",
                "steps": [{"where": "value > 0"}],
            },
            "means": {
                "inputs": ["clean"],
                "replicas": ["127.0.0.1:7201", {"address": "127.0.0.1:7202", "host": "edge"}],
                "max_delay": "4s",
                "steps": [
                    {"select": ["sensor", "value * 2 AS twice"]},
                    {
                        "window": {
                            "keys": ["sensor"],
                            "size": "1m",
                            "slide": "10s",
                            "aggregates": ["count() AS n", "mean(twice) AS mean"],
                        }
                    },
                ],
            },
            "pairs": {
                "inputs": ["clean", "readings"],
                "replicas": ["127.0.0.1:7301"],
                "policy": "order",
                "steps": [{"join": {"keys": ["sensor"], "within": "10s"}}],
            },
        },
        "sinks": {
            "archive": {"stream": "means", "sink": "parquet", "path": "archive"},
            "table": {
                "stream": "clean",
                "sink": "sql",
                "url": "sqlite:///fleet.db",
                "table": "t",
                "keys": ["sensor"],
            },
        },
    }


GONE = object()


def changed(*path_and_value: Any) -> dict[str, Any]:
    """The fleet with one value changed, or taken away with GONE."""
    raw = copy.deepcopy(fleet())
    *path, last, value = path_and_value
    table: Any = raw
    for key in path:
        table = table.setdefault(key, {}) if isinstance(table, dict) else table[key]
    if value is GONE:
        del table[last]
    elif isinstance(table, list) and last == len(table):
        table.append(value)
    else:
        table[last] = value
    return raw


def in_file(raw: dict[str, Any], folder: Path) -> Topology:
    """The topology read from a file with these values."""
    path = folder / "fleet.toml"
    path.write_text("".join(f"{key} = {write_value(value)}\n" for key, value in raw.items()))
    return Topology.read(path)


def in_python(raw: dict[str, Any]) -> Topology:
    """The topology made in Python of these values."""
    values = dict(raw)
    if isinstance(values.get("security"), dict):
        values["security"] = Security(**values["security"])
    for group, make in (("streams", _stream), ("stages", _stage), ("sinks", _sink)):
        if isinstance(values.get(group), dict):
            values[group] = {
                name: make(table) if isinstance(table, dict) else table
                for name, table in values[group].items()
            }
    return Topology(**values)


def _stream(raw: dict[str, Any]) -> Stream:
    return Stream(**_inlined(raw, "source", SOURCES))


def _sink(raw: dict[str, Any]) -> Sink:
    return Sink(**_inlined(raw, "sink", SINKS))


def _inlined(raw: dict[str, Any], field: str, tables: Any) -> dict[str, Any]:
    kind = tables.get(raw.get(field)) if isinstance(raw.get(field), str) else None
    if kind is None:
        own = {name for each in tables.values() for name in settings_of(each)}
        return {name: value for name, value in raw.items() if name == field or name not in own}
    own = set(settings_of(kind))
    outer = {name: value for name, value in raw.items() if name not in own}
    return outer | {field: kind(**{name: raw[name] for name in own if name in raw})}


def _stage(raw: dict[str, Any]) -> Stage:
    values = dict(raw)
    if isinstance(values.get("replicas"), list):
        values["replicas"] = [
            Replica(**each) if isinstance(each, dict) else each for each in values["replicas"]
        ]
    if isinstance(values.get("steps"), list):
        values["steps"] = [_step(each) for each in values["steps"]]
    return Stage(**values)


def _step(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    words = [word for word in (*STEPS.flat, *STEPS.nested) if word in raw]
    if len(words) != 1:
        return raw
    (word,) = words
    if word in STEPS.flat:
        return STEPS.flat[word](**raw)
    return STEPS.nested[word](**raw[word]) if isinstance(raw[word], dict) else raw


def problems_in_file(raw: dict[str, Any], folder: Path) -> list[Problem]:
    with pytest.raises(TopologyError) as caught:
        in_file(raw, folder)
    path = folder / "fleet.toml"
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return list(caught.value.problems)


def problems_in_python(raw: dict[str, Any]) -> list[Problem]:
    with pytest.raises(TopologyError) as caught:
        in_python(raw)
    assert all(line.startswith("topology: ") for line in str(caught.value).splitlines())
    return list(caught.value.problems)
