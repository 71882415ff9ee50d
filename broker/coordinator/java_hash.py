"""`string_hash`: Java's `String.hashCode`, by which keys have partitions and Java's hash tables have an order.

It is computed in a few operations on large integers, and linear in the length of the text. Pure.
"""

from functools import lru_cache
from struct import iter_unpack

__all__ = ["string_hash"]

CACHED_LENGTH_MAX = 256
"""Longer texts are not kept: clients choose most of them."""
_MASK = 0xFFFF_FFFF
_LANES_BITS = (16, 32, 64)
_BLOCK_SIZE_BYTES = 16


def string_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned number."""
    return _cached(text) if len(text) <= CACHED_LENGTH_MAX else _computed(text)


def _computed(text: str) -> int:
    """The polynomial of the UTF-16 code units at 31.

    Of each block of eight units all are computed at once: neighbors are combined in lanes of an integer, which have
    twice as many bits each time. The value of a block has less than 52 bits.
    """
    data = text.encode("utf-16-be", "surrogatepass")
    data = bytes(-len(data) % _BLOCK_SIZE_BYTES) + data
    lanes, power = int.from_bytes(data, "big"), 31
    for bits in _LANES_BITS:
        size_bytes = bits // 8
        lower = int.from_bytes((bytes(size_bytes) + b"\xff" * size_bytes) * (len(data) // size_bytes // 2), "big")
        lanes = (lanes >> bits & lower) * power + (lanes & lower)
        power *= power
    value = 0
    for (block,) in iter_unpack(">8xQ", lanes.to_bytes(len(data), "big")):
        value = (value * power + block) & _MASK
    return value


_cached = lru_cache(maxsize=65_536)(_computed)
