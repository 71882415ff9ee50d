"""`OffsetMap`: the last offset of each key in the dirty part of a log, with a bound on its memory.

As in Kafka's `SkimpyOffsetMap`, a key is known by a 128-bit hash only (MD5 there, XXH3 here). Two keys with the same
hash would be taken for one; with ten million keys the probability of that is below 1e-24.
"""

from collections.abc import Callable, Iterable, Sequence

from xxhash import xxh3_128_digest

ENTRY_SIZE_BYTES = 184
"""The memory of an entry: a 16-byte digest (49), an offset (32), and its place in a dict that may just have grown."""
NO_OFFSET = -1
digest_of: Callable[[bytes], bytes] = xxh3_128_digest


class OffsetMap:
    """See above.

    Args:
        size_bytes: `log.cleaner.dedupe.buffer.size`, divided by the number of cleaner threads.
        load_factor: `log.cleaner.io.buffer.load.factor`, the part of the memory that is used.

    Attributes:
        latest_offset: the map knows the keys of all dirty records up to this offset.
    """

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        self._offsets: dict[bytes, int] = {}
        self._capacity = max(1, int(size_bytes * load_factor) // ENTRY_SIZE_BYTES)
        self.latest_offset = NO_OFFSET

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, digests: Sequence[bytes], offsets: Sequence[int]) -> int:
        """Adds records in the order of their offsets; returns how many: the others find no room."""
        room = self._capacity - len(self._offsets)
        if room >= len(digests):
            self._offsets.update(zip(digests, offsets, strict=True))
            return len(digests)
        known = self._offsets
        for index, digest in enumerate(digests):
            if digest not in known and len(known) >= self._capacity:
                return index
            known[digest] = offsets[index]
        return len(digests)

    def latest(self, digests: Iterable[bytes]) -> list[int]:
        """Returns the last offset of each key, `NO_OFFSET` for unknown ones."""
        get = self._offsets.get
        return [get(digest, NO_OFFSET) for digest in digests]
