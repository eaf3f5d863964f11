"""What Spark's tasks are told and answer, at little cost to the process that they run in.

A task here works for milliseconds, so that what Python does around it counts. Arrow imports pandas
as soon as it is given Python's values: that takes a third of a second in every process.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Final

import numpy as np
import pyarrow as pa

__all__ = ["MESSAGES", "messages", "settle"]

MESSAGES: Final = "message binary"
"""The columns of `messages`, for Spark."""


def messages(values: Sequence[bytes]) -> pa.RecordBatch:
    """A row for each of them."""
    ends = np.fromiter(accumulate(map(len, values), initial=0), np.int32)
    content = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    column = pa.Array.from_buffers(pa.binary(), len(values), content)
    return pa.RecordBatch.from_arrays([column], ["message"])


@cache
def settle() -> None:
    """Let the garbage collector look no more at what this process has imported. Spark has it look
    at everything after each task."""
    gc.freeze()
