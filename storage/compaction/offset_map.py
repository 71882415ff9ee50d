"""`OffsetMap`: maps each key in the dirty part of a log to its last offset, in bounded memory.

As in Kafka's `SkimpyOffsetMap`, the map stores only a 128-bit hash of each key (MD5 in Kafka, XXH3 here). Two keys with
the same hash would be taken for one key; with ten million keys the probability of that is below 1e-24.

`PlainOffsetMap` uses a dict. If numpy is installed, `NumpyOffsetMap` (`numpy_offset_map.py`) is used instead, which
needs a sixth of the memory.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence

from xxhash import xxh3_128_digest

DIGEST_SIZE_BYTES = 16
NO_OFFSET = -1
digest_of: Callable[[bytes], bytes] = xxh3_128_digest


class OffsetMap(ABC):
    """A map from the hash of a key to the last offset of the key.

    Digests (hashes) are passed as one byte string, one after the other, each of `DIGEST_SIZE_BYTES` bytes.

    After the last `put`, `finish` lists the offsets of the map. A record of the dirty part, up to `latest_offset`, is
    the last record of its key if and only if its offset is in that list. So the key of such a record need not be looked
    up, nor even read.

    Attributes:
        latest_offset: the offset up to which the map knows the keys of all dirty records.
    """

    def __init__(self) -> None:
        self.latest_offset = NO_OFFSET
        self._finished = array("q")

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def put(self, digests: bytes, offsets: Sequence[int]) -> int:
        """Adds records in the order of their offsets. Returns the number of added records: the others have no room."""

    @abstractmethod
    def latest(self, digests: bytes) -> list[int]:
        """Returns the last offset of each key; `NO_OFFSET` for an unknown key."""

    @abstractmethod
    def _sorted_offsets(self) -> "array[int]": ...

    def finish(self) -> None:
        """Lists the offsets of the map, for `offsets_between`."""
        self._finished = self._sorted_offsets()

    def offsets_between(self, first: int, last: int) -> Sequence[int]:
        """The offsets of the finished map between `first` and `last`, both inclusive, ascending."""
        begin = bisect_left(self._finished, first)
        return self._finished[begin : bisect_left(self._finished, last + 1, begin)]


class PlainOffsetMap(OffsetMap):
    """An offset map without numpy.

    Args:
        size_bytes: `log.cleaner.dedupe.buffer.size`, divided by the number of cleaner threads.
        load_factor: `log.cleaner.io.buffer.load.factor`, the used part of the memory.
    """

    ENTRY_SIZE_BYTES = 192
    """The memory of a key in bytes: a 16-byte digest (49), an offset (32), an entry of a dict that may just have grown,
    and an entry of the list of offsets (8)."""

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        super().__init__()
        self._offsets: dict[bytes, int] = {}
        self._capacity = max(1, int(size_bytes * load_factor) // self.ENTRY_SIZE_BYTES)

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, digests: bytes, offsets: Sequence[int]) -> int:
        """Adds records, as `OffsetMap.put`."""
        known = self._offsets
        for index, digest in enumerate(_divided(digests)):
            if digest not in known and len(known) >= self._capacity:
                return index
            known[digest] = offsets[index]
        return len(offsets)

    def latest(self, digests: bytes) -> list[int]:
        """Returns the last offset of each key, as `OffsetMap.latest`."""
        get = self._offsets.get
        return [get(digest, NO_OFFSET) for digest in _divided(digests)]

    def _sorted_offsets(self) -> "array[int]":
        return array("q", sorted(self._offsets.values()))


def _divided(digests: bytes) -> list[bytes]:
    return [digests[start : start + DIGEST_SIZE_BYTES] for start in range(0, len(digests), DIGEST_SIZE_BYTES)]
