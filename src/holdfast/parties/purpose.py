"""What the folder of a party was made for, noted in it.

Logs and checkpoints that were made for other steps, columns or buckets would give wrong answers
without a word. So a party whose folder was made for something else does not start. Whatever is not
among these facts (addresses, delays, replicas, readers ...) may change from one start to the next.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.parties.whole_files import make_folder, write_whole
from holdfast.topology import Topology
from holdfast.topology.streams import SOURCES
from holdfast.topology.text import word_of, write_step

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from holdfast.spark.stages.compile import Compiled

__all__ = ["check_purpose", "source_purpose", "stage_purpose"]

NOTE: Final = "made-for.json"

Facts = dict[str, str | int | list[str]]


def stage_purpose(topology: Topology, name: str, compiled: Compiled) -> Facts:
    """What a replica of a stage keeps its state for."""
    stage = topology.stages[name]
    return {
        "bucket": str(topology.bucket),
        "inputs": [
            f"{stream} ({_columns(schema)})"
            for stream, schema in zip(stage.inputs, compiled.inputs, strict=True)
        ],
        "steps": [write_step(step) for step in stage.steps],
        "shards": stage.shards,
        "columns": _columns(compiled.published),
    }


def source_purpose(topology: Topology, name: str) -> Facts:
    """What the source of a stream keeps its log for."""
    stream = topology.streams[name]
    return {
        "bucket": str(topology.bucket),
        "source": word_of(stream.source, SOURCES),
        "schema": ", ".join(f"{column} {kind}" for column, kind in stream.source.schema),
        "time": stream.time or "",
    }


def _columns(schema: StructType) -> str:
    """But for the event time."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields[1:])


def check_purpose(folder: Path, facts: Facts) -> None:
    """Refuse a folder that was made for something else; note what a new one is made for."""
    note = folder / NOTE
    if not note.exists():
        make_folder(folder)
        write_whole(note, json.dumps(facts, indent=2).encode())
        return
    try:
        found: dict[str, Any] = dict(json.loads(note.read_bytes()))
    except (ValueError, TypeError):
        raise StoreCorruptError(
            f"{note}: cannot be read; delete it if {folder} is of this topology as it is now, or "
            f"delete {folder} to begin anew"
        ) from None
    changes = [
        f"{name} was {json.dumps(found.get(name))} and is {json.dumps(fact)}"
        for name, fact in facts.items()
        if found.get(name) != fact
    ]
    if changes:
        raise InvalidArgumentError(
            f"{folder}: was made for another topology: {'; '.join(changes)}. Change that back, "
            f"give the topology another `folder`, or delete {folder} to begin anew"
        )
