"""Bytes of stored and sent formats, as they were: a change of one is a decision, not an accident.

The digests are the same at revision bbaeb1b, before modules moved.
"""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from holdfast.edge.machine.messages import Events
from holdfast.edge.process.frames import encode as encode_frame
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.segment_log import DiskLog
from holdfast.storage.chunks import Chunk
from holdfast.storage.journal import Journal
from holdfast.transport.codec import encode as encode_message
from holdfast.windows import monoids
from holdfast.windows.stores.codec import StateCodec
from tests.transport.samples import draw_message


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class Noted(msgspec.Struct, array_like=True):
    at: int
    what: str


def messages() -> bytes:
    rng = random.Random(7)
    return b"".join(encode_message(draw_message(rng)) for _ in range(200))


def frame() -> bytes:
    times = np.arange(5, dtype=np.int64) + 1_000
    return encode_frame(Events("s1", 2, 3, 4, times, times / 7, 5_000, list("abcde"), True, 6))


def states() -> bytes:
    codec = StateCodec()
    lifted = [
        monoids.sum.lift(1.5),
        monoids.mean.lift(2),
        monoids.variance.lift(0.1),
        monoids.max.lift("x"),
        np.arange(4, dtype=np.int64),
    ]
    return b"".join(codec.encode(state) for state in lifted)


def chunk() -> bytes:
    table = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": pa.array(["a", "b", None])})
    return Chunk.of(table).digest


def log(folder: Path) -> bytes:
    written = DiskLog(folder)
    table = pa.table({"n": pa.array([7, 8], pa.int64())})
    segment = Segment(1_000_000, 2_000_000, (Row(1_000_000, None, Chunk.of(table)),))
    written.append(segment, {"place": 3})
    written.close()
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def journal(folder: Path) -> bytes:
    with Journal(folder, Noted) as kept:
        kept.append([Noted(1, "begun"), Noted(2, "done")])
    return (folder / "journal").read_bytes()


FORMATS = {
    "messages": "3449495c8996ab5a",
    "frame": "9f4939dbd6daaa93",
    "states": "5f26879fb210f87b",
    "chunk": "c102a324f109c3d8",
    "log": "ce3755490e7c7802",
    "journal": "974dd77e556ad312",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_what_it_was(name: str, tmp_path: Path) -> None:
    make = {
        "messages": messages,
        "frame": frame,
        "states": states,
        "chunk": chunk,
        "log": lambda: log(tmp_path / "log"),
        "journal": lambda: journal(tmp_path / "journal"),
    }[name]
    assert digest(make()) == FORMATS[name]
