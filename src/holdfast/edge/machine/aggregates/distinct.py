"""Approximate distinct counts: HyperLogLog over NumPy arrays.

The registers depend on the set of values only, so neither order nor framing nor how often a state
was sent and read again shows in them. That is why these are ours and not Apache DataSketches': its
small sketches serialise differently after each reading, and take one value per call.

The estimate is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", 2017,
algorithm 6): no tables of biases and no switch between formulas; the standard error is
1.04 / sqrt(2^lg_k), less for few values.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

RANKS: Final = 43
"""Bits of a hash that are left for the rank at the largest lg_k, 21; so many are used at any."""
EMPTY: Final = b""
"""No value yet. Otherwise one byte for the form, then a byte per register, or where that is shorter
the numbers of the registers that are not 0, four bytes each, and then what is in them."""

DENSE: Final = b"\x00"
SPARSE: Final = b"\x01"


def add(state: bytes, values: NDArray[np.float64], lg_k: int) -> bytes:
    if not len(values):
        return state
    registers = _read(state, lg_k)
    hashes = _hash(values)
    numbers = (hashes >> np.uint64(64 - lg_k)).astype(np.int64)
    rest = (hashes << np.uint64(lg_k)) >> np.uint64(64 - RANKS)
    # 43 bits fit a float exactly, and its exponent is where the highest of them stands.
    ranks = (RANKS + 1 - np.frexp(rest.astype(np.float64))[1]).astype(np.uint8)
    np.maximum.at(registers, numbers, ranks)
    return _write(registers)


def combine(older: bytes, newer: bytes, lg_k: int) -> bytes:
    if not older or not newer:
        return older or newer
    return _write(np.maximum(_read(older, lg_k), _read(newer, lg_k)))


def estimate(state: bytes, lg_k: int) -> int | None:
    if not state:
        return None
    m = 1 << lg_k
    counts = np.bincount(_read(state, lg_k), minlength=RANKS + 2).tolist()
    z = m * _tau(1.0 - counts[RANKS + 1] / m)
    for rank in range(RANKS, 0, -1):
        z = 0.5 * (z + counts[rank])
    z += m * _sigma(counts[0] / m)
    return max(1, round(m * m / (2.0 * math.log(2.0) * z)))


def _hash(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Stafford's thirteenth mix of the bits: different values have different hashes."""
    bits = (values + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed


def _read(state: bytes, lg_k: int) -> NDArray[np.uint8]:
    registers = np.zeros(1 << lg_k, np.uint8)
    if state[:1] == DENSE:
        registers[:] = np.frombuffer(state, np.uint8, offset=1)
    elif state:
        n = (len(state) - 1) // 5
        numbers = np.frombuffer(state, np.dtype("<u4"), n, offset=1)
        registers[numbers] = np.frombuffer(state, np.uint8, n, offset=1 + 4 * n)
    return registers


def _write(registers: NDArray[np.uint8]) -> bytes:
    numbers = np.flatnonzero(registers)
    if 5 * len(numbers) < len(registers):
        return SPARSE + numbers.astype("<u4").tobytes() + registers[numbers].tobytes()
    return DENSE + registers.tobytes()


def _sigma(x: float) -> float:
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    if x in (0.0, 1.0):
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3.0
