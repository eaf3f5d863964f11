"""What tasks are told and answer; and that it costs them no import of pandas."""

from __future__ import annotations

import subprocess
import sys

from holdfast.verify.process.task_api import messages


def test_messages_are_rows() -> None:
    values = [b"one", b"", b"\0\xff" * 300]
    batch = messages(values)
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == values
    assert messages([]).num_rows == 0


CODE = """
import sys, tempfile
from pathlib import Path, PurePosixPath
import numpy as np, pyarrow as pa
from holdfast.verify.machine import Holder, Report, Run
from holdfast.verify.process.slices import Making, _checked, _make
from holdfast.verify.process.computing import Binding
from holdfast.verify.process.slice_files import read_slice
from holdfast.verify.process.task_api import messages

class Told:
    def report(self, report): self.report = report

fields = {"c0": pa.int64(), "label": pa.int32()}
columns = [
    pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(np.zeros(3, kind.to_pandas_dtype()))])
    for kind in fields.values()
]
batch = pa.RecordBatch.from_arrays(columns, list(fields))
told = Told()
storage = Path(tempfile.mkdtemp())
making = Making("job", "stage", Run(), b"", 1, storage, told)
schema = pa.schema({"n": pa.int64()})
_make(making, 0, schema, _checked(iter([batch]), making, schema, 0))
holder = Holder(1, "host", told.report.path)
pieces = read_slice(storage, told.report.digest, told.report.rows, [holder], print)
assert [t.num_rows for t in pieces] == [3]
assert "pandas" not in sys.modules
"""


def test_slices_are_written_and_read_without_pandas() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
