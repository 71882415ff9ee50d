"""Directory ids: 16 bytes that name a data directory of a broker (KIP-858), and three that name none.

A directory has its id in `meta.properties`. The metadata have the ids of the directories that each broker can use, and
for each replica the id of the directory that it is in. Source: Kafka's `DirectoryId`.
"""

from collections.abc import Collection
from random import Random

__all__ = ["LOST", "MIGRATING", "UNASSIGNED", "is_online", "is_reserved", "new_directory_id"]

UNASSIGNED = bytes(16)
"""Not known yet: the broker of a new replica chooses its directory."""
LOST = bytes(15) + b"\x01"
"""Some directory that its broker cannot use now."""
MIGRATING = bytes(15) + b"\x02"
"""Some directory of its broker, from before directories were kept in the metadata."""
_RESERVED_END = 100


def is_reserved(directory: bytes) -> bool:
    """Whether no directory may have this id."""
    return int.from_bytes(directory, "big") < _RESERVED_END


def is_online(directory: bytes, online: Collection[bytes]) -> bool:
    """Whether a replica in this directory can be used.

    Args:
        directory: of the replica.
        online: of its broker; empty if the broker has reported none, as brokers did before KIP-858.
    """
    if directory in (UNASSIGNED, MIGRATING):
        return True
    return directory != LOST and (not online or directory in online)


def new_directory_id(random: Random) -> bytes:
    """A version 4 UUID; its first bit is clear, so that its text does not start with '-'."""
    raw = bytearray(random.randbytes(16))
    raw[0] &= 0x7F
    raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
    return bytes(raw)
