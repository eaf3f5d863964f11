"""Arrow tables from untrusted peers, read so that nothing leads outside of their bytes.

Used wherever bytes or tables come from another process or from disk.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from holdfast.errors import WireError

ARROW_ERRORS = (pa.ArrowException, OSError, ValueError, TypeError, MemoryError)
"""What Arrow raises for bytes that make no sense."""
MAX_METADATA = 2**24
"""Bytes that may describe a table: some hundred thousands of columns. Each takes many times as many
in memory."""

# Of the FlatBuffers in which Arrow describes its messages (Message.fbs): the place of a field in
# its table, and the numbers of two kinds of header.
_HEADER_KIND, _HEADER = 1, 2
_DICTIONARY, _BATCH = 2, 3
_BATCH_OF_DICTIONARY = 1
_COMPRESSION = 3


def read_table(data: bytes) -> pa.Table:
    """Of an Arrow IPC stream; WireError if it is none, or if few bytes could become any number of
    them: if it is compressed, or its columns share bytes."""
    try:
        described = 0
        for message in pa.ipc.MessageReader.open_stream(data):
            described += message.metadata.size
            if described > MAX_METADATA:
                raise WireError("a table has too many columns or batches; send fewer")
            if _is_compressed(message.metadata.to_pybytes()):
                raise WireError("a table is compressed; send it as it is")
        table = pa.ipc.open_stream(data).read_all()
        # Offsets that lead outside must be found before anybody follows them to count bytes.
        table.validate()
        if table.nbytes > len(data):
            raise WireError("columns of a table share bytes; send each column its own")
    except (*ARROW_ERRORS, struct.error) as error:
        raise WireError(f"this is no Arrow table ({type(error).__name__})") from None
    check_table(table)
    return table


def check_table(table: pa.Table | pa.RecordBatch) -> None:
    """WireError unless all offsets, texts and lengths in it are in order."""
    try:
        table.validate(full=True)
    except ARROW_ERRORS as error:
        raise WireError(f"an Arrow table is damaged ({type(error).__name__})") from None


def _is_compressed(metadata: bytes) -> bool:
    message = _follow(metadata, 0)
    kind = _field(metadata, message, _HEADER_KIND)
    header = _field(metadata, message, _HEADER)
    if kind is None or header is None or metadata[kind] not in (_DICTIONARY, _BATCH):
        return False
    batch = _follow(metadata, header)
    if metadata[kind] == _DICTIONARY:
        inner = _field(metadata, batch, _BATCH_OF_DICTIONARY)
        if inner is None:
            return False
        batch = _follow(metadata, inner)
    return _field(metadata, batch, _COMPRESSION) is not None


def _follow(data: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", data, place)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table lies, None if it has none."""
    fields = table - int(struct.unpack_from("<i", data, table)[0])
    if 4 + 2 * number >= int(struct.unpack_from("<H", data, fields)[0]):
        return None
    offset = int(struct.unpack_from("<H", data, fields + 4 + 2 * number)[0])
    return table + offset if offset else None
