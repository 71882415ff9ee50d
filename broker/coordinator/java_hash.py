"""`string_hash`: Java's `String.hashCode`, which decides the partition of a key and the order of Java's hash tables.

The hash is computed in a few operations on large integers. The time is linear in the length of the text. Pure.
"""

from functools import lru_cache
from struct import iter_unpack

__all__ = ["string_hash"]

CACHED_LENGTH_MAX = 256
"""In characters. The hashes of longer texts are not cached: clients choose most texts, so their lengths as well."""
_MASK = 0xFFFF_FFFF
_LANES_BITS = (16, 32, 64)
_BLOCK_SIZE_BYTES = 16


def string_hash(text: str) -> int:
    """Java's `String.hashCode`, as an unsigned number."""
    return _cached(text) if len(text) <= CACHED_LENGTH_MAX else _computed(text)


def _computed(text: str) -> int:
    """The hash, computed as a polynomial whose coefficients are the UTF-16 code units, at 31.

    The text is one large integer, divided into blocks of eight code units. Each round combines neighboring lanes of
    the integer into lanes of twice as many bits, for all blocks at once. After three rounds each block has become one
    value of less than 52 bits.
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
