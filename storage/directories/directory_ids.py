"""Directory ids: 16 bytes that name a data directory of a broker (KIP-858), and three reserved ids.

The id of a directory is in its `meta.properties`. The metadata has the ids of the directories that each broker can use,
and for each replica the id of the directory of that replica. Source: Kafka's `DirectoryId`.
"""

from collections.abc import Collection
from random import Random

__all__ = ["LOST", "MIGRATING", "UNASSIGNED", "is_online", "is_reserved", "new_directory_id"]

UNASSIGNED = bytes(16)
"""The directory of a replica is not known yet: the broker of a new replica chooses the directory."""
LOST = bytes(15) + b"\x01"
"""The replica is in an unknown directory that its broker cannot use now."""
MIGRATING = bytes(15) + b"\x02"
"""The replica is in an unknown directory of its broker: it is older than directories in the metadata."""
_RESERVED_END = 100


def is_reserved(directory: bytes) -> bool:
    """Whether an id is reserved, so that no directory may have it."""
    return int.from_bytes(directory, "big") < _RESERVED_END


def is_online(directory: bytes, online: Collection[bytes]) -> bool:
    """Whether a replica in this directory can be used.

    Args:
        directory: the id of the replica's directory.
        online: the ids of the directories that the broker has reported; empty if the broker has reported none, as
            before KIP-858.
    """
    if directory in (UNASSIGNED, MIGRATING):
        return True
    return directory != LOST and (not online or directory in online)


def new_directory_id(random: Random) -> bytes:
    """A new random id: a version 4 UUID. Its first bit is 0, so that its text does not start with '-'."""
    raw = bytearray(random.randbytes(16))
    raw[0] &= 0x7F
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
    return bytes(raw)
