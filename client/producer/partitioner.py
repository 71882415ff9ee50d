"""Chooses partitions for records: by the key's murmur2 hash as in the JVM client, or sticky for records without a key.

murmur2 is implemented twice: for one key and, with numpy, for many keys at once; a test checks that both are equal. A
custom partitioner is a callable `(topic, key, value, partition_count) -> partition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Any

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_CACHED_KEY_SIZE_MAX = 64


def murmur2(data: bytes) -> int:
    """The hash of Kafka's `Utils.murmur2`, as an unsigned number of 32 bits."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that Kafka's default partitioner chooses for a key."""
    if len(key) <= _CACHED_KEY_SIZE_MAX:
        return _positive_murmur2(key) % partition_count
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


@lru_cache(maxsize=1 << 16)
def _positive_murmur2(key: bytes) -> int:
    """The non-negative hash of a key, cached, as keys recur and the hash is slow in Python."""
    return murmur2(key) & 0x7FFFFFFF


def partitions_for_keys(keys: Sequence[bytes], partition_count: int) -> list[int]:
    """`partition_for_key` of each key, computed with numpy if it is installed."""
    try:
        import numpy as np
    except ImportError:
        return [partition_for_key(key, partition_count) for key in keys]
    hashes = np.empty(len(keys), np.uint32)
    sizes = np.fromiter(map(len, keys), np.int64, len(keys))
    for size in np.unique(sizes).tolist():
        chosen = np.flatnonzero(sizes == size)
        joined = b"".join([keys[index] for index in chosen.tolist()])
        hashes[chosen] = _murmur2_of_equal_sizes(joined, size, len(chosen))
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).tolist()


def partitions_for_slices(buffer: Any, starts: Any, sizes: Any, partition_count: int) -> Any:
    """`partition_for_key` of keys that are slices of a buffer, without an object for each key. Requires numpy.

    Args:
        buffer: the bytes of all keys, a numpy array of uint8.
        starts, sizes: the position and size of each key in bytes, int64.

    Returns the partitions, int64.
    """
    import numpy as np

    if not len(starts):
        return np.empty(0, np.int64)
    size = int(sizes[0])
    if (sizes == size).all() and (np.diff(starts) == size).all():  # one after the other: nothing has to be gathered
        joined = buffer[starts[0] : starts[0] + size * len(sizes)].tobytes()
        hashes = _murmur2_of_equal_sizes(joined, size, len(sizes))
    else:
        hashes = np.empty(len(starts), np.uint32)
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            joined = buffer[starts[chosen][:, None] + np.arange(size)].tobytes()
            hashes[chosen] = _murmur2_of_equal_sizes(joined, size, len(chosen))
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partition_count)).astype(np.int64)


def _murmur2_of_equal_sizes(joined: bytes, size: int, count: int) -> Any:
    """The `murmur2` hashes of `count` concatenated keys of `size` bytes each."""
    import numpy as np

    table = np.frombuffer(joined, np.uint8).reshape(count, size)
    m = np.uint32(_M)
    h = np.full(count, (_SEED ^ size) & _MASK, np.uint32)
    whole = size & ~3
    words = np.ascontiguousarray(table[:, :whole]).view("<u4")
    for column in range(whole // 4):
        k = words[:, column] * m
        k = (k ^ (k >> np.uint32(24))) * m
        h = (h * m) ^ k
    if size > whole:
        rest = np.zeros((count, 4), np.uint8)
        rest[:, : size - whole] = table[:, whole:]
        h = (h ^ rest.view("<u4")[:, 0]) * m
    h = (h ^ (h >> np.uint32(13))) * m
    return h ^ (h >> np.uint32(15))


class StickyChoice:
    """The partition for records without a key: the same one until it has received `batch_size` bytes (KIP-794).

    Attributes:
        partition: the current choice; valid while `left` is positive, else call `renew` first.
        left: the bytes that may still be sent to that partition; the caller subtracts the size of each record.
    """

    __slots__ = ("_random", "_size", "left", "partition")

    def __init__(self, batch_size: int, random: Random) -> None:
        self.partition = -1
        self.left = 0
        self._size = max(batch_size, 1)
        self._random = random

    def renew(self, available: Sequence[int]) -> None:
        """Choose another partition among `available`, which must not be empty."""
        others = [one for one in available if one != self.partition] or available
        self.partition = self._random.choice(others)
        self.left = self._size

    def leaders_changed(self, available: Sequence[int]) -> None:
        """Abandon the current choice if it no longer has a leader."""
        if self.partition not in available:
            self.left = 0
