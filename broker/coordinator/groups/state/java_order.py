"""The order in which Java's `HashMap` and `HashSet` iterate over their keys.

Kafka's assignors go through members and topics in this order, and who comes first receives the partition that is left
over; among protocols of a classic group with equally many votes the first one wins. With the same order a group gets
the same answers from either broker. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from minikafka.broker.coordinator.java_hash import string_hash

CAPACITY_MIN = 16
K = TypeVar("K")


def in_map_order(strings: Iterable[str]) -> list[str]:
    """The order of a `HashMap` into which the strings were put, one by one.

    Strings in the same bucket keep their order.
    """
    listed = list(strings)
    return sorted(listed, key=_by_bucket(string_hash, _grown_capacity(len(listed))))


def ids_in_set_order(ids: Iterable[bytes]) -> list[bytes]:
    """The order of a `HashSet` that was made from the uuids; those in the same bucket are sorted."""
    listed = sorted(ids)
    return sorted(listed, key=_by_bucket(uuid_hash, _copied_capacity(len(listed))))


def ids_in_map_order(ids: Iterable[bytes]) -> list[bytes]:
    """The order of a `HashMap` into which the uuids were put, one by one; those in the same bucket are sorted."""
    listed = sorted(ids)
    return sorted(listed, key=_by_bucket(uuid_hash, _grown_capacity(len(listed))))


def numbers_in_set_order(numbers: Iterable[int]) -> list[int]:
    """The order of a `HashSet` that was made from the numbers; those in the same bucket are sorted."""
    listed = sorted(numbers)
    capacity = _copied_capacity(len(listed))
    if not listed or listed[-1] < capacity:
        return listed
    return sorted(listed, key=_by_bucket(int, capacity))


def uuid_hash(uuid: bytes) -> int:
    """The hash of Kafka's `Uuid`, as an unsigned number: its four words combined."""
    words = [int.from_bytes(uuid[at : at + 4], "big") for at in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def uuid_order(uuid: bytes) -> tuple[int, int]:
    """Sorts as Kafka's `Uuid.compareTo`: by two signed numbers."""
    return int.from_bytes(uuid[:8], "big", signed=True), int.from_bytes(uuid[8:], "big", signed=True)


def string_order(text: str) -> bytes:
    """Sorts as Java's `String.compareTo`: by UTF-16 code units."""
    return text.encode("utf-16-be")


def _by_bucket(hash_of: Callable[[K], int], capacity: int) -> Callable[[K], int]:
    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (capacity - 1)

    return bucket


def _grown_capacity(count: int) -> int:
    """The buckets of a map of 16 that doubled whenever it was filled to more than three quarters."""
    capacity = CAPACITY_MIN
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def _copied_capacity(count: int) -> int:
    """The buckets of a set that was made as a copy of a collection."""
    least = max(int(count / 0.75) + 1, CAPACITY_MIN)
    return 1 << (least - 1).bit_length()
