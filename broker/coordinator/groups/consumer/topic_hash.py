"""The hash of the topics that a group subscribes to, by which a coordinator notices that they have changed (KIP-1101).

Equal to that of Kafka 4.3 (`Utils.computeGroupHash`), so that a coordinator that continues from Kafka's records, or the
reverse, sees no change where there is none. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from xxhash import xxh3_64_intdigest

from minikafka.broker.coordinator.groups.state.java_order import string_order

VERSION = b"\0"
NO_TOPIC = 0


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of a topic: of its id, name, number of partitions, and the racks with a replica of each.

    Args:
        topic_id: The uuid.
        name: The name.
        racks: The racks of each partition's replicas; empty for a partition without racks.
    """
    parts = [VERSION, topic_id[7::-1], topic_id[:7:-1], _text(name), struct.pack("<i", len(racks))]
    if not any(racks):
        parts.append(struct.pack(f"<{len(racks)}i", *range(len(racks))))
        racks = ()
    for partition, names in enumerate(racks):
        parts.append(struct.pack("<i", partition))
        for rack in sorted(names, key=string_order):
            parts += [struct.pack("<i", len(rack.encode("utf-16-le")) // 2), _text(rack)]
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """The hash of a group's topics from the hash of each by name; `NO_TOPIC` if there are none."""
    if not topic_hashes:
        return NO_TOPIC
    ordered = [topic_hashes[name] for name in sorted(topic_hashes, key=string_order)]
    return _signed(xxh3_64_intdigest(struct.pack(f"<{len(ordered)}q", *ordered)))


def _text(text: str) -> bytes:
    """Two bytes for each UTF-16 unit, then their number."""
    data = text.encode("utf-16-le")
    return data + struct.pack("<i", len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
