"""Rows of one stream in one bucket, as an Arrow table that is stored and sent as bytes.

A chunk is known by its digest, which depends on the values and their types, never on how Arrow
happens to lay them out. Chunks with the same digest are equal, wherever their bytes lie. So a chunk
holds nothing that its digest does not cover: Spark, pandas and Parquet read values otherwise if
metadata says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import (
    InvalidArgumentError,
    StoreCorruptError,
    StoreUnavailableError,
    WireError,
)
from holdfast.storage.untrusted import ARROW_ERRORS, read_table

DIGEST_SIZE = 32


@dataclass(frozen=True, slots=True)
class _Piece:
    """Where the bytes lie in a file."""

    path: Path
    offset: int


class Chunk:
    """An immutable table, in memory or on disk. Its bytes are an Arrow IPC stream."""

    __slots__ = ("_place", "digest", "rows", "size")

    def __init__(self, place: bytes | _Piece, rows: int, size: int, digest: bytes) -> None:
        """Not to be called: see `of`, `received`, `kept` and `stored`."""
        self._place = place
        self.rows = rows
        self.size = size
        """Of its bytes."""
        self.digest = digest
        """SHA-256 over the canonical form of its values."""

    @classmethod
    def of(cls, table: pa.Table) -> Chunk:
        """Raises InvalidArgumentError for types that have no canonical form."""
        return cls._written(table, digest_of(table))

    @classmethod
    def _written(cls, table: pa.Table, digest: bytes) -> Chunk:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _bare(table.schema)) as writer:
            # As one batch: several could name one dictionary, and readers want bytes of its own for
            # each.
            writer.write_table(table.combine_chunks())
        data = sink.getvalue().to_pybytes()
        return cls(data, table.num_rows, len(data), digest)

    @classmethod
    def received(cls, data: bytes, rows: int, digest: bytes) -> Chunk:
        """From somebody else: raises WireError unless the data has these rows and this digest."""
        table = read_table(data)
        if table.num_rows != rows:
            raise WireError(f"a chunk of {rows} rows has {table.num_rows}")
        if not _has_digest(table, digest):
            raise WireError("a chunk's rows do not have its digest")
        if not _bare(table.schema).equals(table.schema, check_metadata=True):
            return cls._written(table, digest)
        return cls(data, rows, len(data), digest)

    @classmethod
    def kept(cls, data: bytes, rows: int, digest: bytes) -> Chunk:
        """A chunk that we have had before, of which nothing has changed."""
        return cls(data, rows, len(data), digest)

    @classmethod
    def stored(cls, path: Path, offset: int, size: int, rows: int, digest: bytes) -> Chunk:
        """Bytes of a chunk that were written to a file; nothing is read before it is asked for."""
        return cls(_Piece(path, offset), rows, size, digest)

    def moved(self, path: Path, offset: int) -> Chunk:
        """The same chunk, whose bytes have been written to a file."""
        return Chunk.stored(path, offset, self.size, self.rows, self.digest)

    @property
    def in_memory(self) -> bool:
        return isinstance(self._place, bytes)

    def read(self) -> bytes:
        """Its bytes. From a file they are as they were found there: `has_digest` tells."""
        if isinstance(self._place, bytes):
            return self._place
        path, offset = self._place.path, self._place.offset
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(self.size)
        except OSError as error:
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; see whether the disk is gone or the file was removed"
            ) from error
        if len(data) < self.size:
            raise StoreCorruptError(
                f"{path}: ends before byte {offset + self.size}; "
                "restore it from a copy, or start the replica with an empty folder"
            )
        return data

    def table(self) -> pa.Table:
        if isinstance(self._place, bytes):
            return pa.ipc.open_stream(self._place).read_all()
        try:
            return read_table(self.read())
        except WireError as error:
            raise StoreCorruptError(
                f"{self._place.path}: at byte {self._place.offset}: {error}; "
                "restore it from a copy, or start the replica with an empty folder"
            ) from None

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Chunk) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        """Equal chunks look equal: votes are taken on how rows look."""
        return f"Chunk({self.digest.hex()})"


def has_digest(data: bytes, digest: bytes) -> bool:
    """Whether these bytes of a chunk have that digest; they may be anything, from anywhere."""
    try:
        return _has_digest(read_table(data), digest)
    except WireError:
        return False


def digest_of(table: pa.Table) -> bytes:
    """SHA-256 over names, types, rows and values. Metadata, slices, chunking, and what lies under
    nulls do not count; bits of floating-point numbers do, so 0.0 is not -0.0."""
    hashed = sha256()
    _hash_number(hashed, table.num_columns)
    _hash_number(hashed, table.num_rows)
    for field, column in zip(table.schema, table.columns, strict=True):
        _hash_field(hashed, field)
        _hash_values(hashed, _joined(column))
    return hashed.digest()


def _bare(schema: pa.Schema) -> pa.Schema:
    """Without what no digest covers: metadata at any depth, and names of fields in lists and maps.

    Arrow takes tables of either schema for tables of the other.
    """
    return pa.schema([_bare_field(field, field.name) for field in schema])


def _bare_field(field: pa.Field, name: str) -> pa.Field:
    return pa.field(name, _bare_type(field.type), field.nullable)


def _bare_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_bare_field(field, field.name) for field in kind])
    if pa.types.is_map(kind):
        key, item = _bare_field(kind.key_field, "key"), _bare_field(kind.item_field, "value")
        return pa.map_(key, item, kind.keys_sorted)
    if _is_fixed_list(kind):
        return pa.list_(_bare_field(kind.value_field, "element"), kind.list_size)
    if _is_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(_bare_field(kind.value_field, "element"))
    return kind


def _has_digest(table: pa.Table, digest: bytes) -> bool:
    try:
        return digest_of(table) == digest
    except (InvalidArgumentError, *ARROW_ERRORS) as error:
        raise WireError(f"a chunk has no digest: {error}") from None


def _joined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        raise InvalidArgumentError("a chunk's column is too large; use smaller buckets")
    return joined


def _hash_number(hashed: Any, number: int) -> None:
    hashed.update(number.to_bytes(8, "little", signed=True))


def _hash_bytes(hashed: Any, data: bytes) -> None:
    _hash_number(hashed, len(data))
    hashed.update(data)


def _hash_field(hashed: Any, field: pa.Field, *, named: bool = True) -> None:
    _hash_bytes(hashed, field.name.encode() if named else b"")
    hashed.update(b"\1" if field.nullable else b"\0")
    _hash_type(hashed, field.type)


def _hash_type(hashed: Any, kind: pa.DataType) -> None:
    """The type by its name, and the fields in it; those of lists and maps have no name to count."""
    if pa.types.is_struct(kind):
        _hash_bytes(hashed, b"struct")
        _hash_number(hashed, kind.num_fields)
        for field in kind:
            _hash_field(hashed, field)
    elif pa.types.is_map(kind):
        _hash_bytes(hashed, b"map sorted" if kind.keys_sorted else b"map")
        _hash_field(hashed, kind.key_field, named=False)
        _hash_field(hashed, kind.item_field, named=False)
    elif _is_list(kind):
        name = "large_list" if pa.types.is_large_list(kind) else "list"
        name += f" of {kind.list_size}" if _is_fixed_list(kind) else ""
        _hash_bytes(hashed, name.encode())
        _hash_field(hashed, kind.value_field, named=False)
    elif pa.types.is_dictionary(kind):
        _hash_bytes(hashed, f"dictionary {kind.index_type} {kind.ordered}".encode())
        _hash_type(hashed, kind.value_type)
    else:
        _hash_bytes(hashed, str(kind).encode())


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or _is_fixed_list(kind)


def _is_fixed_list(kind: pa.DataType) -> bool:
    return pa.types.is_fixed_size_list(kind)


def _hash_values(hashed: Any, array: pa.Array) -> None:
    """Which values there are, then these, one after the other."""
    kind = array.type
    _hash_number(hashed, len(array))
    if pa.types.is_null(kind):
        return
    if pa.types.is_dictionary(kind):
        _hash_dictionary(hashed, array)
        return
    if array.null_count:
        valid = array.is_valid()
        hashed.update(b"\1")
        hashed.update(np.packbits(_bits(valid)).data)
        array = array.drop_null()
    else:
        hashed.update(b"\0")
    if pa.types.is_struct(kind):
        for child in array.flatten():
            _hash_values(hashed, child)
    elif pa.types.is_map(kind):
        offsets = _offsets(array, np.dtype("<i4"))
        hashed.update(np.diff(offsets).astype("<i8").data)
        first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        _hash_values(hashed, array.keys.slice(first, length))
        _hash_values(hashed, array.items.slice(first, length))
    elif _is_fixed_list(kind):
        _hash_values(hashed, array.flatten())
    elif _is_list(kind):
        width = np.dtype("<i8" if pa.types.is_large_list(kind) else "<i4")
        hashed.update(np.diff(_offsets(array, width)).astype("<i8").data)
        _hash_values(hashed, array.flatten())
    elif pa.types.is_boolean(kind):
        hashed.update(np.packbits(_bits(array)).data)
    elif _is_binary(kind):
        width = np.dtype("<i8" if _is_large_binary(kind) else "<i4")
        offsets = _offsets(array, width)
        hashed.update(np.diff(offsets).astype("<i8").data)
        content = array.buffers()[2]
        if content is not None:
            hashed.update(memoryview(content)[int(offsets[0]) : int(offsets[-1])])
    elif _is_plain(kind):
        _hash_fixed(hashed, array)
    else:
        raise InvalidArgumentError(f"a chunk cannot hold columns of {kind}; cast them before")


def _hash_fixed(hashed: Any, array: pa.Array) -> None:
    width = array.type.bit_width // 8
    content = array.buffers()[1]
    if content is not None and width:
        start = array.offset * width
        hashed.update(memoryview(content)[start : start + len(array) * width])


def _hash_dictionary(hashed: Any, array: pa.DictionaryArray) -> None:
    """Values numbered in the order in which the rows name them first: others do not count."""
    values = _bit_by_bit(array.dictionary)
    if not (_is_binary(values.type) or _is_plain(values.type) or pa.types.is_boolean(values.type)):
        raise InvalidArgumentError(
            f"a chunk cannot hold dictionaries of {values.type}; cast the column before"
        )
    merged = values.dictionary_encode()
    # A null in the dictionary is a null of the row that names it.
    numbers = pc.take(merged.indices, array.indices)
    named = numbers.drop_null().unique()
    _hash_values(hashed, pc.index_in(numbers, value_set=named))
    _hash_values(hashed, pc.take(merged.dictionary, named))


def _bit_by_bit(values: pa.Array) -> pa.Array:
    """Floating-point numbers as integers, so that only the same bits are the same value."""
    if pa.types.is_floating(values.type):
        return values.view(
            {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[values.type.bit_width]
        )
    return values


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large_binary(kind)


def _is_large_binary(kind: pa.DataType) -> bool:
    return pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether each value takes the same number of whole bytes."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _bits(array: pa.Array) -> np.ndarray[Any, Any]:
    """A boolean array without nulls, one byte each."""
    content = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    stop = array.offset + len(array)
    return np.unpackbits(content, count=stop, bitorder="little")[array.offset :]


def _offsets(array: pa.Array, width: np.dtype[Any]) -> np.ndarray[Any, Any]:
    content = array.buffers()[1]
    if content is None or not len(array):
        return np.zeros(1, width)
    return np.frombuffer(content, width, len(array) + 1, array.offset * width.itemsize)
